import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

@Entity('orders')
export class Order {
  @PrimaryGeneratedColumn('identity', { generatedIdentity: 'ALWAYS', type: 'integer' })
  id!: number;

  @Column('text')
  email!: string;

  @Column('integer', { name: 'total_cents' })
  totalCents!: number;

  @Column('timestamptz', { name: 'receipt_at', nullable: true })
  receiptAt!: Date | null;
}
