// The worker process: `node dist/worker.js`. Start as many as you like. SIGTERM and Ctrl-C drain it.
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.ts';

const app = await NestFactory.createApplicationContext(AppModule.for({ concurrency: 10 }));
app.enableShutdownHooks(['SIGTERM', 'SIGINT'], { useProcessExit: true });
