#!/bin/sh
# The only way the agent's CLI is started: nothing of the service's environment, its own empty home, limits.
# The service names the CLI and a folder for it; what else may pass is listed here and nowhere else.
set -eu
ulimit -c 0
ulimit -n 1024
ulimit -t "$FIELDMARK_CPU_SECONDS"
echo $$ > "$FIELDMARK_SEALED/pid"

# Held open: after the change of user the CLI's own folder may be out of reach.
exec 9< "$FIELDMARK_CLI"
program=/proc/self/fd/9
[ -e "$program" ] || program=$FIELDMARK_CLI

# Where a person decides, the model is asked for one call a message: of several that wait only the last would survive.
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
  ${FIELDMARK_EAGER_ARGUMENTS:+CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING=1} \
  ${ANTHROPIC_BASE_URL:+ANTHROPIC_BASE_URL="$ANTHROPIC_BASE_URL"} \
  ${FIELDMARK_MODEL_KEY:+ANTHROPIC_API_KEY="$FIELDMARK_MODEL_KEY"} \
  ${FIELDMARK_MODEL_TOKEN:+ANTHROPIC_AUTH_TOKEN="$FIELDMARK_MODEL_TOKEN"} \
  "$program" "$@"

# The conversation to go on with, where there is one, lies in a folder that the SDK has made for it.
if [ "$(id -u)" = 0 ] && [ "$CLAUDE_CONFIG_DIR" != "$FIELDMARK_SEALED/config" ]; then
  chown -R "$FIELDMARK_USER:$FIELDMARK_USER" "$CLAUDE_CONFIG_DIR"
fi

# A service that dies takes its CLIs along: the kernel sees to it from setpriv on, and before it there is another parent.
set -- /bin/sh -c '[ "$PPID" = "$0" ] || exit 1; exec "$@"' "$FIELDMARK_SERVICE_PID" "$@"

# Ctrl-C in a terminal is for the service: its CLIs are told by it, and its runs are handed back. (No fork here: the
# process leads no group yet, so its number stays the one that was written down.)
if [ -x /usr/bin/setsid ]; then
  set -- /usr/bin/setsid "$@"
fi

# A service that is root does not lend them its rights: each has a user of its own.
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

# Of the system's files it has programs and settings to read, and its own folder to write. Where the kernel offers that,
# it can signal nobody outside either. (First, while what lies in folders closed to its user can still be named.)
exec "$FIELDMARK_PYTHON" -I -S -B "$FIELDMARK_CONFINE" "$FIELDMARK_SEALED" "$CLAUDE_CONFIG_DIR" "$FIELDMARK_CLI" "$@"
