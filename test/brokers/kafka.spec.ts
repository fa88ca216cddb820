import { contract } from './contract.js';
import { GROUNDS } from './grounds.js';

contract(GROUNDS.kafka);
