-- Its trigger makes the index that claims read and the trigger that calls inbox_wake.
INSERT INTO holdfast.queues (name) VALUES ('inbox');
