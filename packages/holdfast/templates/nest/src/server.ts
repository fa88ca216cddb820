// The API process: `node dist/server.js`.
import 'reflect-metadata';
import { HOLDFAST } from '@holdfast/nest';
import { NestFactory } from '@nestjs/core';
import type { Holdfast } from 'holdfast';
import { AppModule } from './app.module.ts';
import { host, ops, port } from './ops.ts';

const app = await NestFactory.create(AppModule.for(false));
app.use('/holdfast', ops(app.get<Holdfast>(HOLDFAST)));
app.enableShutdownHooks(['SIGTERM', 'SIGINT'], { useProcessExit: true });
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, () => {
    // Requests get five seconds; an open dashboard would keep its stream for ever.
    setTimeout(() => app.getHttpServer().closeAllConnections(), 5_000).unref();
  });
await app.listen(port, host);
console.log(`listening on ${await app.getUrl()}, dashboard under /holdfast`);
