import { HoldfastModule, type HoldfastModuleOptions } from '@holdfast/nest';
import { type DynamicModule, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { database } from './data-source.ts';
import { Mail, Receipts } from './jobs.ts';
import { OrdersController } from './orders.controller.ts';

@Module({
  imports: [TypeOrmModule.forRoot(database)],
  controllers: [OrdersController],
  providers: [Mail, Receipts],
})
export class AppModule {
  /** The API runs without a worker, and the worker is a process of its own. */
  static for(worker: HoldfastModuleOptions['worker']): DynamicModule {
    return { module: AppModule, imports: [HoldfastModule.forRoot({ worker })] };
  }
}
