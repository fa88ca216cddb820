import { ops } from '../../../ops.ts';

export const dynamic = 'force-dynamic';
const handle = (request: Request): Promise<Response> => ops(request);

export { handle as GET, handle as POST };
