# What we do here every day. `just` lists it.

default:
    @just --list

# Install into the current virtual environment, with all that tests and checks need.
install:
    pip install -e '.[test,lint,bench]'
    pre-commit install

# All that .ci/run checks, without the tests.
check:
    ruff check .
    ruff format --check .
    pyright
    lint-imports
    squawk migrations/*.sql

# Put imports and spacing in order.
format:
    ruff check --fix .
    ruff format .

# The tests; `just test tests/sql -k journal` for some of them.
test *args:
    pytest {{ args }}

# Write the baseline migration anew from supabase/schemas. (After a release: a migration of its own instead.)
baseline:
    python supabase/make_baseline.py

# The API, a worker and the embedded Postgres, on your own files.
serve:
    fieldmark serve

# Write the hashed pins of what ships, and of what tests it, anew.
pin:
    uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q --upgrade -o constraints.txt
    uv pip compile pyproject.toml --universal --python-version 3.11 --extra test --extra lint --extra bench -c constraints.txt --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o constraints-dev.txt
