# What we do here every day. `just` lists it.

default:
    @just --list

# Install into the current virtual environment, with all that tests and checks need.
install:
    pip install -e '.[test,lint,bench,browser]'
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

# The page as it is being written, before a service that runs; `just page` installs its packages when they are not there.
page: page-packages
    cd frontend && npm run dev

# The page's types against the API as it is now, and its own tests.
page-check: page-packages
    python -c "import json; from fieldmark.api.app import create_app; from fieldmark.settings import Settings; print(json.dumps(create_app(Settings(_env_file=None)).openapi()))" > frontend/openapi.json
    cd frontend && npm run describe && npm run types && npm test

# The pictures of the page in README and docs, from docs/samples.
screenshots:
    python bench/pictures.py docs/pictures

[private]
page-packages:
    cd frontend && (test -d node_modules || npm ci --ignore-scripts)

# Write the hashed pins of what ships, and of what tests it, anew.
pin:
    uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q --upgrade -o constraints.txt
    uv pip compile pyproject.toml --universal --python-version 3.11 --extra test --extra lint --extra bench --extra browser --extra vectors -c constraints.txt --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o constraints-dev.txt
