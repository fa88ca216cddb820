-- CreateTable
CREATE TABLE "orders" (
    "id" SERIAL NOT NULL,
    "email" TEXT NOT NULL,
    "total_cents" INTEGER NOT NULL,
    "receipt_at" TIMESTAMPTZ,

    CONSTRAINT "orders_pkey" PRIMARY KEY ("id")
);
