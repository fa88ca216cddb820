CREATE TABLE "orders" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	"email" text NOT NULL,
	"total_cents" integer NOT NULL,
	"receipt_at" timestamp with time zone
);
