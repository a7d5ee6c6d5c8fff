"""What requests give: a connection, whose metastore is opened for them, and what they want of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, HTTPException, Path, Query, Request

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.plugins import cursors
from airflow_hive_acid.plugins.access import may_read
from airflow_hive_acid.plugins.metastores import Metastores

ConnId = Annotated[str, Path(min_length=1, max_length=250, description="Id of an Airflow connection of a metastore.")]
Limit = Annotated[int, Query(ge=1, le=500, description="Rows at most.")]
Cursor = Annotated[
    str | None, Query(max_length=cursors.LONGEST, description="Where the page begins: `next` of another.")
]
Text = Annotated[str | None, Query(min_length=1, max_length=767)]
RowId = Annotated[int, Path(ge=1, le=2**63 - 1)]
FilterId = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


def opened(request: Request, user: GetUserDep, conn_id: ConnId) -> Iterator[MetastoreClient]:
    """The client of the connection's metastore, while the request is served.

    :raises HTTPException: 403 when the connection belongs to a team that the user is not in.
    """
    if not may_read(user, conn_id):
        raise HTTPException(403, f"you may not read {conn_id}: it belongs to a team that you are not a member of")
    metastores: Metastores = request.app.state.metastores
    with metastores.client(conn_id) as client:
        yield client


# The place among those at work is given up before the answer is sent: whoever reads slowly holds nobody up.
# FastAPI before 0.118 always closed before it sent the answer, and has no such word.
_BEFORE_THE_ANSWER: Any = {"scope": "function"} if "scope" in inspect.signature(Depends).parameters else {}
Client = Annotated[MetastoreClient, Depends(opened, **_BEFORE_THE_ANSWER)]
