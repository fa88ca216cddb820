#!/usr/bin/env python3
"""A worker for Holdfast in Python: a loop of four calls, and a thread that keeps what it holds.

Needs psycopg 3 (Debian: apt-get install python3-psycopg) and the role holdfast_sql_worker of docs/roles.sql.
Run it: DATABASE_URL=postgres://... python3 examples/python/worker.py

A handler gets the job and the connection, inside of a transaction. What it writes there commits together with the
completion, or not at all. What it raises is a failed attempt, which is tried again later.
"""
import os
import random
import signal
import threading
import time

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb


class Lost(Exception):
    """Somebody else has the job: nothing of this attempt counts."""


class Worker:
    def __init__(self, url, handlers, queue="inbox", lease=90, ttl=30, poll=1.0):
        self.url, self.handlers, self.queue = url, handlers, queue
        self.lease, self.ttl, self.poll = lease, ttl, poll
        self.stopping = threading.Event()
        self.held = {}  # the generation of each job that runs here
        self.id = None

    def connect(self):
        return psycopg.connect(self.url, autocommit=True, row_factory=dict_row)

    def run(self):
        keeper = threading.Thread(target=self.keep, daemon=True)
        while not self.stopping.is_set():
            try:
                with self.connect() as db:
                    if self.id is None:
                        self.register(db)
                    if not keeper.is_alive():
                        keeper.start()
                    self.work(db)
            except psycopg.OperationalError as error:
                # The database was restarted, or the network is gone. What was held comes back by itself.
                print(f"database: {error}; trying again", flush=True)
                self.stopping.wait(random.uniform(0.5, 1.5))
        with self.connect() as db:
            db.execute("SELECT holdfast.worker_leave(%s)", [self.id])

    def register(self, db):
        sql = "SELECT holdfast.worker_register(%s, %s, name => 'python', ttl => make_interval(secs => %s)) AS id"
        self.id = db.execute(sql, [list(self.handlers), [self.queue], self.ttl]).fetchone()["id"]

    def work(self, db):
        claim = "SELECT * FROM holdfast.worker_claim(%s, %s, 1, make_interval(secs => %s))"
        while not self.stopping.is_set():
            try:
                jobs = db.execute(claim, [self.id, self.queue, self.lease]).fetchall()
            except psycopg.Error as error:
                if error.sqlstate != "HF008":
                    raise
                self.register(db)  # it was declared dead: a dead id never lives again
                continue
            for job in jobs:
                self.one(db, job)
            if not jobs:
                self.stopping.wait(self.poll * random.uniform(0.75, 1.25))

    def one(self, db, job):
        mine = [self.id, job["id"], job["generation"]]
        self.held[job["id"]] = (self.id, job["generation"])
        try:
            with db.transaction():
                result = self.handlers[job["type"]](job, db)
                done = "SELECT holdfast.worker_complete(%s, %s, %s, %s) AS state"
                if db.execute(done, [*mine, Jsonb(result)]).fetchone()["state"] == "lost":
                    raise Lost()  # rolls back what the handler wrote
        except Lost:
            print(f"lost {job['id']}", flush=True)
        except psycopg.OperationalError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            db.execute("SELECT holdfast.worker_fail(%s, %s, %s, %s)", [*mine, text])
        finally:
            self.held.pop(job["id"], None)

    def keep(self):
        """Heartbeats, and renewals of what runs. On a connection of its own: the other one may be busy for long."""
        while True:
            try:
                with self.connect() as db:
                    # When this session ends, the others know at once that the process is gone.
                    db.execute("SELECT holdfast.worker_hold(%s)", [self.id])
                    held_by = self.id
                    while held_by == self.id:
                        self.beat(db)
                        time.sleep(min(self.ttl, self.lease) / 3)
            except psycopg.OperationalError:
                time.sleep(1)

    def beat(self, db):
        db.execute("SELECT holdfast.worker_heartbeat(%s)", [self.id])
        held = [(job, generation) for job, (by, generation) in list(self.held.items()) if by == self.id]
        if held:
            sql = "SELECT holdfast.worker_renew(%s, %s, %s, make_interval(secs => %s))"
            db.execute(sql, [self.id, [job for job, _ in held], [of for _, of in held], self.lease])


def send_receipt(job, db):
    print(f"receipt for {job['payload']}, attempt {job['attempt']}", flush=True)
    return {"sent": True}


if __name__ == "__main__":
    worker = Worker(os.environ["DATABASE_URL"], {"send_receipt": send_receipt})
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: worker.stopping.set())
    worker.run()
