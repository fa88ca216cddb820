import { fromPrisma } from 'holdfast/adapters';
import { hf, prisma } from '../../database.ts';
import { sendReceipt } from '../../jobs.ts';

/** An order and the job that sends its receipt commit together. */
export async function POST(request: Request): Promise<Response> {
  const { email, total } = (await request.json()) as { email: unknown; total: unknown };
  if (typeof email !== 'string' || typeof total !== 'number')
    return Response.json({ error: 'email must be a text and total a number' }, { status: 400 });
  const id = await prisma.$transaction(async (tx) => {
    const { id } = await tx.order.create({ data: { email, total } });
    const options = { partitionKey: `order:${id}`, tx: fromPrisma(tx) };
    await hf.enqueue(sendReceipt, { orderId: id }, options);
    return id;
  });
  return Response.json({ id }, { status: 201 });
}
