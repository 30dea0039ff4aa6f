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
    python frontend/check.py

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

# The types of the web UI against the routes the API has, and its own tests.
page-check:
    python frontend/check.py

# The pictures of the page in README and docs, from docs/samples.
screenshots:
    python frontend/pictures.py docs/pictures

[private]
page-packages:
    cd frontend && (test -d node_modules || npm ci --ignore-scripts)

# Write the hashed pins of what ships, and of what tests it, anew.
pin:
    uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q --upgrade -o constraints.txt
    uv pip compile pyproject.toml --universal --python-version 3.11 --extra test --extra lint --extra bench --extra browser --extra vectors -c constraints.txt --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o constraints-dev.txt
