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
    pyright -p bench  # names that the programs use exist
    lint-imports
    squawk migrations/*.sql
    python frontend/check.py
    hadolint Dockerfile
    check-jsonschema --builtin-schema vendor.compose-spec compose.yaml

# Build a release into dist, as the workflow does; without `--draft` from the tag v1.2.3.
release *args="--draft":
    .ci/release dist {{ args }}

# Build the image, and run it and the stack of compose.yaml, as root with podman.
containers:
    pip install -q podman-compose==1.6.0
    python tests/containers.py

# Put imports and spacing in order.
format:
    ruff check --fix .
    ruff format .

# The tests; `just test tests/sql -k journal` for some of them, `just test --full` also for those that take longest.
test *args:
    pytest {{ args }}

# Write the baseline migration anew from supabase/schemas. (After a release: a migration of its own instead.)
baseline:
    python supabase/make_baseline.py

# Write the TypeScript types of the database anew, after a change of supabase/schemas.
types:
    python supabase/make_types.py

# The API, a worker and the embedded Postgres, on your own files.
serve:
    fieldmark serve

# The page as it is being written, before a service that runs; `just page` installs its packages when they are not there.
page: page-packages
    cd frontend && npm run dev

# The format of the web UI, its types against the routes the API has, and its own tests.
page-check:
    python frontend/check.py

# Measure one thing: `just bench extraction tokens`. Without a name: what there is, and how long it takes.
bench name="" *args:
    #!/usr/bin/env bash
    if [ -n "{{ name }}" ]; then exec python "bench/{{ name }}.py" {{ args }}; fi
    cat << 'LIST'
    extraction   an extraction's tokens, pace, batch cost and latency, beside others     10 min; one part: 2 to 10 min
    faults       Postgres, workers, network and model fail under load                    20 times: 3 hours
    command_faults  migrations and backups that fail in the middle                       10 min
    fairness     what one organisation's flood costs another                              5 min
    grounding    values found where they are printed (needs a folder of samples)          2 min
    growth       every route and store function: a thousand documents and many           10 min; --scale 1 --times 20: 8 min
    mutants      guards taken away one by one: do the tests notice?                       1 min a mutant
    ocr          OCR beside rapidocr called directly; --values: what it reads right       5 min
    page         the web UI in a browser: clicks, loads, scrolling                       10 min
    reading      pages a second of PDFs with text, beside pdfplumber                      1 min
    search       ranking and speed of search (needs questions, or --chunks)               5 min; --chunks 1000000: 20 min
    stacks       a table filled from documents, while workers are killed                   --documents 1000: 8 min
    table_values tables filled from documents with known values (needs a folder)          20 min; --systems claude: 8 min
    tables       the table of a schema of 10,000 documents, alone and among many           10 min
    workers      several workers on one Postgres against one, and what a document costs     4 min; --documents 1000 160: 30 min
    queue_simulation  queue and fairness at 100 million documents a month                  1 min
    warm         an organisation's first word, and nothing mixed up between runs          1 min; --canaries 1000: 15 min
    LIST

# The pictures of the page in README and docs, from docs/samples.
screenshots:
    python frontend/screenshots.py docs/pictures

[private]
page-packages:
    cd frontend && (test -d node_modules || npm ci --ignore-scripts)

# Write the hashed pins of what ships, and of what tests it, anew.
pin:
    uv pip compile pyproject.toml --universal --python-version 3.11 --extra encryption --generate-hashes --no-emit-index-url --no-header --no-annotate -q --upgrade -o constraints.txt
    uv pip compile pyproject.toml --universal --python-version 3.11 --extra test --extra lint --extra bench --extra browser --extra vectors --extra parquet -c constraints.txt --generate-hashes --no-emit-index-url --no-header --no-annotate -q -o constraints-dev.txt
