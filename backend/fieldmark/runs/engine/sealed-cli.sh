#!/bin/sh
# Starts the agent's CLI with resource limits, an empty home, and only the environment variables listed here. The service
# passes the CLI's path and its folder.
set -eu
ulimit -c 0
ulimit -n 1024
ulimit -t "$FIELDMARK_CPU_SECONDS"
echo $$ > "$FIELDMARK_SEALED/pid"

# Held open: after the change of user the CLI's program may not be accessible by its path.
exec 9< "$FIELDMARK_CLI"
program=/proc/self/fd/9
[ -e "$program" ] || program=$FIELDMARK_CLI

# If a person approves calls, the model may make one call per message: the CLI keeps only the last of several deferred calls.
body="{\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":$FIELDMARK_ONE_AT_A_TIME}}"

set -- env -i \
  PATH=/usr/bin:/bin LANG=C.UTF-8 HOME="$FIELDMARK_SEALED" TMPDIR="$FIELDMARK_SEALED" PWD="$FIELDMARK_SEALED" \
  CLAUDE_CONFIG_DIR="$CLAUDE_CONFIG_DIR" \
  CLAUDE_CODE_ENTRYPOINT="$CLAUDE_CODE_ENTRYPOINT" CLAUDE_AGENT_SDK_VERSION="$CLAUDE_AGENT_SDK_VERSION" \
  CLAUDE_AGENT_SDK_CLIENT_APP="$CLAUDE_AGENT_SDK_CLIENT_APP" \
  CLAUDE_CODE_SDK_READS_SESSION_STATE="$CLAUDE_CODE_SDK_READS_SESSION_STATE" \
  CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS=1 CLAUDE_CODE_DISABLE_BUNDLED_SKILLS=1 \
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 DISABLE_DOCTOR_COMMAND=1 CLAUDE_CODE_DISABLE_ATTACHMENTS=1 \
  CLAUDE_CODE_DISABLE_FILE_MENTIONS=1 CLAUDE_CODE_DISABLE_AUTO_MEMORY=1 CLAUDE_CODE_DISABLE_CLAUDE_MDS=1 \
  CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1 CLAUDE_CODE_DISABLE_CRON=1 CLAUDE_CODE_DISABLE_WORKFLOWS=1 \
  CLAUDE_CODE_DISABLE_TERMINAL_TITLE=1 CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1 \
  CLAUDE_CODE_ATTRIBUTION_HEADER=0 ENABLE_TOOL_SEARCH=false CLAUDE_CODE_MAX_RETRIES="$FIELDMARK_RETRIES" \
  CLAUDE_ENABLE_BYTE_WATCHDOG=1 CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS=60000 \
  CLAUDE_CODE_EXTRA_BODY="$body" \
  ${FIELDMARK_OUTPUT_TOKENS:+CLAUDE_CODE_MAX_OUTPUT_TOKENS="$FIELDMARK_OUTPUT_TOKENS"} \
  ${FIELDMARK_EAGER_ARGUMENTS:+CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING=1} \
  ${ANTHROPIC_BASE_URL:+ANTHROPIC_BASE_URL="$ANTHROPIC_BASE_URL"} \
  ${FIELDMARK_MODEL_KEY:+ANTHROPIC_API_KEY="$FIELDMARK_MODEL_KEY"} \
  ${FIELDMARK_MODEL_TOKEN:+ANTHROPIC_AUTH_TOKEN="$FIELDMARK_MODEL_TOKEN"} \
  "$program" "$@"

# A resumed conversation is in a folder that the SDK has created.
if [ "$(id -u)" = 0 ] && [ "$CLAUDE_CONFIG_DIR" != "$FIELDMARK_SEALED/config" ]; then
  chown -R "$FIELDMARK_USER:$FIELDMARK_USER" "$CLAUDE_CONFIG_DIR"
fi

# The CLI ends with its service: from setpriv on the kernel kills it; before that it exits if its parent has changed.
set -- /bin/sh -c '[ "$PPID" = "$0" ] || exit 1; exec "$@"' "$FIELDMARK_SERVICE_PID" "$@"

# A session of its own, so that Ctrl-C in a terminal reaches only the service, which releases its runs. (setsid does not
# fork here, since the process leads no group yet: its process id stays the recorded one.)
if [ -x /usr/bin/setsid ]; then
  set -- /usr/bin/setsid "$@"
fi

# If the service runs as root, each CLI runs as its own user.
if [ "$(id -u)" = 0 ]; then
  if [ ! -x /usr/bin/setpriv ] || [ "$FIELDMARK_USER" = 0 ]; then
    echo "sealed-cli.sh: setpriv (util-linux) and a user are needed to start the agent without root's rights" >&2
    exit 70
  fi
  set -- --reuid="$FIELDMARK_USER" --regid="$FIELDMARK_USER" --clear-groups "$@"
fi
if [ -x /usr/bin/setpriv ]; then
  set -- /usr/bin/setpriv --no-new-privs --pdeathsig KILL "$@"
fi

# The CLI may read the system's programs and settings, and write its own folder. If the kernel supports it, it cannot
# signal other processes either.
exec "$FIELDMARK_PYTHON" -I -S -B "$FIELDMARK_CONFINE" "$FIELDMARK_SEALED" "$CLAUDE_CONFIG_DIR" "$FIELDMARK_CLI" "$@"
