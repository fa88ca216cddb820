import { prisma } from '../../../database.ts';

type Context = { params: Promise<{ id: string }> };

export async function GET(_request: Request, { params }: Context): Promise<Response> {
  const id = Number((await params).id);
  const order = Number.isInteger(id) ? await prisma.order.findUnique({ where: { id } }) : null;
  return order ? Response.json(order) : Response.json({ error: 'not found' }, { status: 404 });
}
