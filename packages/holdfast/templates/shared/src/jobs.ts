import { type HandlerContext, job } from 'holdfast';

/** The definition: the API enqueues it, the worker handles it. */
export const sendReceipt = job<{ orderId: number }>('send_receipt', {
  maxAttempts: 10,
  timeout: '30s',
});

export interface Mail {
  /** The same key is one mail. Most mail services know such keys. */
  send(orderId: number, idempotencyKey: string): Promise<void>;
}

/** Put your mail service here. */
export const mail: Mail = {
  async send(orderId) {
    console.log(`mail: receipt for order ${orderId}`);
  },
};

/** A handler may run twice, such as after a crash. orders.test.ts shows that one mail is sent. */
export const receiptHandler =
  (mail: Mail) =>
  async (ctx: HandlerContext<{ orderId: number }>): Promise<void> => {
    const { orderId } = ctx.payload;
    // Once sent, it is not sent again by a retry; the key covers a crash between the two.
    await ctx.once('mail', () => mail.send(orderId, `${ctx.id}:mail`));
    // This write and the completion of the job commit together.
    await ctx.transaction((tx) =>
      tx.query('UPDATE orders SET receipt_at = now() WHERE id = $1', [orderId]),
    );
  };
