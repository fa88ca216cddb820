import { fromPrisma } from 'holdfast/adapters';
import { hf, prisma } from '../../database.ts';
import { sendReceipt } from '../../jobs.ts';

/** An order and the job that sends its receipt commit together. */
export async function POST(request: Request): Promise<Response> {
  // What is no JSON, or `null`, lacks both.
  const { email, totalCents } = (await request.json().catch(() => null)) ?? {};
  // `| 0` keeps what fits an integer of Postgres.
  if (
    typeof email !== 'string' ||
    typeof totalCents !== 'number' ||
    (totalCents | 0) !== totalCents
  )
    return Response.json(
      { error: 'email must be a text and totalCents an integer' },
      { status: 400 },
    );
  const id = await prisma.$transaction(async (tx) => {
    const { id } = await tx.order.create({ data: { email, totalCents } });
    const options = { partitionKey: `order:${id}`, tx: fromPrisma(tx) };
    await hf.enqueue(sendReceipt, { orderId: id }, options);
    return id;
  });
  return Response.json({ id }, { status: 201 });
}
