import { render } from 'preact';
import { LabApp } from './app.js';

render(<LabApp />, document.getElementById('app') as HTMLElement);
