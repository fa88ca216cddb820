// Jest cannot load ES modules, so it gets Holdfast as CommonJS from here: `preset: '@holdfast/testing'`. Beside another preset:
// `moduleNameMapper: require('@holdfast/testing/jest-preset').moduleNameMapper`.
const { join } = require('node:path');

const file = (name) => join(__dirname, 'dist/jest', `${name}.js`);

module.exports = {
  moduleNameMapper: {
    '^holdfast$': file('index'),
    '^holdfast/(adapters|metrics|config)$': file('$1'),
    '^@holdfast/testing$': file('testing'),
  },
};
