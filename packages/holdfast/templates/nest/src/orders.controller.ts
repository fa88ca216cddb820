import { InjectHoldfast } from '@holdfast/nest';
import {
  BadRequestException,
  Body,
  Controller,
  Get,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
} from '@nestjs/common';
import type { Holdfast } from 'holdfast';
import { fromTypeOrm } from 'holdfast/adapters';
import { DataSource } from 'typeorm';
import { sendReceipt } from './jobs.ts';
import { Order } from './order.entity.ts';

@Controller('orders')
export class OrdersController {
  constructor(
    private readonly database: DataSource,
    @InjectHoldfast() private readonly hf: Holdfast,
  ) {}

  /** An order and the job that sends its receipt commit together. */
  @Post()
  place(@Body() body: { email?: unknown; totalCents?: unknown }): Promise<{ id: number }> {
    const { email, totalCents } = body ?? {};
    // `| 0` keeps what fits an integer of Postgres.
    if (
      typeof email !== 'string' ||
      typeof totalCents !== 'number' ||
      (totalCents | 0) !== totalCents
    )
      throw new BadRequestException('email must be a text and totalCents an integer');
    return this.database.transaction(async (manager) => {
      const { id } = await manager.save(Order, { email, totalCents });
      const tx = fromTypeOrm(manager);
      await this.hf.enqueue(sendReceipt, { orderId: id }, { partitionKey: `order:${id}`, tx });
      return { id };
    });
  }

  @Get(':id')
  async find(@Param('id', ParseIntPipe) id: number): Promise<Order> {
    const order = await this.database.manager.findOneBy(Order, { id });
    if (!order) throw new NotFoundException();
    return order;
  }
}
