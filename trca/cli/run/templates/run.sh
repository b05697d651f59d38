#!/usr/bin/env bash
# Starts the run in the job's folder. A job that starts again continues the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
{% for name, value in environment.items() %}
export {{ name }}={{ value | shell }}
{% endfor %}
exec {{ command | join(" ") }}
