"""The worker of examples/python, with handlers for a test. Arguments: the queue and the type."""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python"))
from worker import Worker  # noqa: E402

queue, kind = sys.argv[1:3]


def entry(job, db):
    asked = job["payload"].get("seconds")
    time.sleep(random.uniform(0, 0.1) if asked is None else asked)
    if asked is None and random.random() < 0.1:
        raise ValueError("no luck")
    sql = "INSERT INTO public.effects (job, key, n, worker) VALUES (%s, %s, %s, %s)"
    db.execute(sql, [job["id"], job["partition_key"], job["payload"]["n"], worker.id])


worker = Worker(os.environ["DATABASE_URL"], {kind: entry}, queue, lease=4, ttl=2, poll=0.1)
signal.signal(signal.SIGTERM, lambda *_: worker.stopping.set())
worker.run()
