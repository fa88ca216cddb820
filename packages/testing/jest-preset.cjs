// Jest cannot load ES modules, so it gets Holdfast as CommonJS from here: `preset: '@holdfast/testing'`. Beside another preset:
// `moduleNameMapper: require('@holdfast/testing/jest-preset').moduleNameMapper`.
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { version } = require('./package.json');

/** What the tests run is the core of this package; another version beside it would be what the application runs. */
function checkSameVersion() {
  let path;
  try {
    path = require.resolve('holdfast/package.json');
  } catch {
    return;
  }
  const other = JSON.parse(readFileSync(path, 'utf8')).version;
  if (other === version) return;
  const message = `@holdfast/testing is version ${version} and holdfast is version ${other}, so no test was run. Install both in one version: npm install holdfast@${version} @holdfast/testing@${version}`;
  throw Object.assign(new Error(message), { code: 'VERSION_MISMATCH' });
}

checkSameVersion();

const file = (name) => join(__dirname, 'dist/jest', `${name}.js`);

module.exports = {
  moduleNameMapper: {
    '^holdfast$': file('index'),
    '^holdfast/(adapters|metrics|config|outbox|projections|receive|webhooks)$': file('$1'),
    '^holdfast/outbox/(http|nats|redis|rabbitmq|kafka)$': file('outbox-$1'),
    '^@holdfast/testing$': file('testing'),
  },
};
