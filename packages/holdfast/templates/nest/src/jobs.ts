import { Handle } from '@holdfast/nest';
import { Injectable } from '@nestjs/common';
import { type HandlerContext, job } from 'holdfast';

export const sendReceipt = job<{ orderId: number }>('send_receipt', {
  maxAttempts: 10,
  timeout: '30s',
});

/** Put your mail service here. */
@Injectable()
export class Mail {
  /** The same key is one mail. Most mail services know such keys. */
  async send(orderId: number, _idempotencyKey: string): Promise<void> {
    console.log(`mail: receipt for order ${orderId}`);
  }
}

@Injectable()
export class Receipts {
  constructor(private readonly mail: Mail) {}

  /** A handler may run twice, such as after a crash. orders.test.ts shows that one mail is sent. */
  @Handle(sendReceipt)
  async send(ctx: HandlerContext<{ orderId: number }>): Promise<void> {
    const { orderId } = ctx.payload;
    // Once sent, it is not sent again by a retry; the key covers a crash between the two.
    await ctx.once('mail', () => this.mail.send(orderId, `${ctx.id}:mail`));
    // This write and the completion of the job commit together.
    await ctx.transaction((tx) =>
      tx.query('UPDATE orders SET receipt_at = now() WHERE id = $1', [orderId]),
    );
  }
}
