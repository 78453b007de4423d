"""The server's own records, one noun a file: people, sets, jobs, boards; and the database under them."""

from __future__ import annotations

from steelyard.server._store._boards import Board, Boards, Submission
from steelyard.server._store._jobs import Job, Jobs
from steelyard.server._store._link import Database, DatabaseError
from steelyard.server._store._people import People, Person
from steelyard.server._store._proposals import Proposal, Proposals
from steelyard.server._store._schema import DatabaseTooNew, migrate
from steelyard.server._store._sets import DataSet, Sets, check_name

__all__ = [
    "Board",
    "Boards",
    "DataSet",
    "Database",
    "DatabaseError",
    "DatabaseTooNew",
    "Job",
    "Jobs",
    "People",
    "Person",
    "Proposal",
    "Proposals",
    "Sets",
    "Submission",
    "check_name",
    "migrate",
]
