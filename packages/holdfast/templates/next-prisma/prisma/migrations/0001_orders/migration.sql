-- CreateTable
CREATE TABLE "orders" (
    "id" SERIAL NOT NULL,
    "email" TEXT NOT NULL,
    "total" DECIMAL(65,30) NOT NULL,
    "receipt_at" TIMESTAMPTZ,

    CONSTRAINT "orders_pkey" PRIMARY KEY ("id")
);
