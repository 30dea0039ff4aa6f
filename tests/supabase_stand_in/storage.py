"""Storage: files in memory, and their rows in `storage.objects` under the bucket's policies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from supabase_stand_in.database import Caller, Connect, Refused, fetch_value


async def answer(request: Request, project: Any, connect: Connect) -> Response:
    _, _, path = request.path_params["path"].partition("/")
    if request.method == "GET" and path.startswith("sign/"):
        return _signed(request, project, path.removeprefix("sign/"))
    caller = project.caller(request)
    kind, _, rest = path.partition("/")
    if kind not in ("sign", "info", "authenticated"):
        kind, rest = "", path
    bucket, _, name = rest.partition("/")
    try:
        async with connect(caller) as connection:
            match request.method, kind:
                case "POST", "":
                    return await _upload(request, project, connection, caller, bucket, name)
                case "DELETE", "":
                    return await _remove(request, project, connection, bucket)
            row = await _visible(connection, bucket, name)
    except psycopg.Error as error:
        raise _refused("403", "Unauthorized", error.diag.message_primary or "") from None
    if row is None:
        raise _refused("404", "not_found", "Object not found")
    match request.method, kind:
        case "GET", "info":
            return JSONResponse({"name": name, "bucket_id": bucket, "size": row["size"]})
        case "POST", "sign":
            seconds = (await request.json())["expiresIn"]
            claims = {
                "aud": "authenticated",
                "url": f"{bucket}/{name}",
                "exp": datetime.now(UTC) + timedelta(seconds=int(seconds)),
            }
            return JSONResponse({"signedURL": f"/object/sign/{bucket}/{name}?token={project.auth.key.sign(claims)}"})
        case "GET", _:
            return Response(project.objects[f"{bucket}/{name}"], media_type=row["mimetype"])
    raise _refused("404", "not_found", "Route not found")


async def _upload(
    request: Request, project: Any, connection: psycopg.AsyncConnection, caller: Caller, bucket: str, name: str
) -> Response:
    content_type = request.headers["content-type"]
    content = await request.body()
    if content_type.startswith("multipart/form-data"):
        async with request.form() as form:
            (file,) = [part for part in form.values() if not isinstance(part, str)]
            content, content_type = await file.read(), file.content_type or "application/octet-stream"
    metadata = Jsonb({"size": len(content), "mimetype": content_type})
    try:
        await connection.execute(
            "insert into storage.objects (bucket_id, name, owner_id, metadata) values (%s, %s, %s, %s)",
            [bucket, name, caller.claims.get("sub"), metadata],
        )
    except psycopg.errors.UniqueViolation:
        raise _refused("409", "Duplicate", "The resource already exists") from None
    project.objects[f"{bucket}/{name}"] = content
    return JSONResponse({"Id": name, "Key": f"{bucket}/{name}"})


async def _remove(request: Request, project: Any, connection: psycopg.AsyncConnection, bucket: str) -> Response:
    names = (await request.json())["prefixes"]
    found = await connection.execute(
        "delete from storage.objects where bucket_id = %s and name = any (%s) returning name", [bucket, names]
    )
    removed = [name for (name,) in await found.fetchall()]
    for name in removed:
        project.objects.pop(f"{bucket}/{name}", None)
    return JSONResponse([{"name": name} for name in removed])


async def _visible(connection: psycopg.AsyncConnection, bucket: str, name: str) -> dict[str, Any] | None:
    """Return the metadata of an object that the caller may read."""
    query = "select metadata from storage.objects where bucket_id = %s and name = %s"
    return await fetch_value(connection, query, [bucket, name])


def _signed(request: Request, project: Any, path: str) -> Response:
    claims = project.auth.claims(request.query_params["token"])
    if claims["url"] != path:
        raise _refused("400", "InvalidSignature", "The signature does not fit the path")
    return Response(project.objects[path])


def _refused(status: str, error: str, message: str) -> Refused:
    """Return an error as Storage sends it: the status is in the body, the HTTP status is 400."""
    return Refused(400, {"statusCode": status, "error": error, "message": message})
