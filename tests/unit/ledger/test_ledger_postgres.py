from __future__ import annotations

import psycopg
import pytest

import postgres
from steelyard.ledger._connection import ConnectionLost
from steelyard.ledger._postgres import PostgresConnection


def test_a_commit_that_the_server_turned_into_a_rollback_is_no_commit() -> None:
    location = postgres.new_database()
    link = PostgresConnection(location, "the test server")
    try:
        link.execute("BEGIN")
        with pytest.raises(psycopg.Error):
            link._driver.execute("SELECT 1 / 0")  # behind the link's back: the transaction is now aborted
        with pytest.raises(ConnectionLost, match="ROLLBACK"):
            link.commit()
        link.execute("BEGIN")
        link.execute("SELECT 1")
        link.commit()
    finally:
        link.close()
