"""A support agent that reads results only; the tiny policy imitates its calls.

The agent runs the ticket's test, checks the phone in the order of the policy, repairs what is
wrong, and refuels data. It never looks at bills and never enables roaming for the line: a customer
whose line is suspended or has no roaming is handed to a human agent.
"""

from __future__ import annotations

from typing import Any

from trca_tau2.adapter import TicketAdapter
from trca_tau2.reading import BEST_MODE, HOPELESS, REFUEL, is_wrong, works

_TESTS = {"service": "check_status_bar", "mobile_data": "run_speed_test", "mms": "can_send_mms"}
_SWITCHES = {
    "airplane": "toggle_airplane_mode",
    "data": "toggle_data",
    "roaming": "toggle_roaming",
    "saver": "toggle_data_saver_mode",
    "vpn": "disconnect_vpn",
    "wifi_calling": "toggle_wifi_calling",
}
"""Tools that repair a value without an argument, in the order of the policy."""
_CHECKS = {
    "service": {"airplane": "check_network_status", "apn": "check_apn_settings"},
    "mobile_data": {
        "airplane": "check_network_status",
        "saver": "check_data_restriction_status",
        "mode": "check_network_mode_preference",
        "vpn": "check_vpn_status",
    },
    "mms": {
        "airplane": "check_network_status",
        "wifi_calling": "check_wifi_calling_status",
        "sms": "check_app_permissions",
        "mmsc": "check_apn_settings",
    },
}
"""Values to check for an issue, and the tool that reads each."""

NextCall = tuple[str, dict[str, Any]]


def next_call(adapter: TicketAdapter) -> NextCall:
    """The next call of the agent: name and arguments."""
    values, issue = adapter.values, adapter.binding.issue or "service"
    if adapter.escalated or works(issue, values):
        return "done", {}
    hopeless = any(values.get(name) == value for name, value in HOPELESS.items())
    if not hopeless and (call := _phone(adapter, issue)):
        return call
    if not hopeless and issue != "service" and (call := _data(adapter)):
        return call
    return "transfer_to_human_agents", {"summary": "The phone is checked and the issue remains."}


def _phone(adapter: TicketAdapter, issue: str) -> NextCall | None:
    values = adapter.values

    def wrong(name: str) -> bool:
        return is_wrong(name, values.get(name, ""), adapter.binding)

    if not values:
        return _TESTS[issue], {}
    for name, tool in _SWITCHES.items():
        if wrong(name) and (name != "wifi_calling" or issue == "mms"):
            return tool, {}
    if values.get("sim") == "missing":
        return "reseat_sim_card", {}
    if values.get("apn_reset") == "pending":
        return "reboot_device", {}
    if wrong("apn") or wrong("mmsc"):
        return "reset_apn_settings", {}
    if wrong("mode") or wrong("network"):
        return "set_network_mode_preference", {"mode": BEST_MODE}
    for name in ("sms", "storage"):
        if wrong(name):
            return "grant_app_permission", {"app_name": "messaging", "permission": name}
    for name, tool in _CHECKS[issue].items():
        if name not in values or (name == "airplane" and "sim" not in values):
            return tool, {"app_name": "messaging"} if name == "sms" else {}
    tests = {"service": "service", "mobile_data": "speed", "mms": "mms"}
    return None if tests[issue] in values else (_TESTS[issue], {})


def _data(adapter: TicketAdapter) -> NextCall | None:
    """The call that leads to enough data; None if nothing is left to do."""
    values = adapter.values
    if "customer" not in values:
        return "get_customer_by_phone", {"phone_number": adapter.binding.phone_number}
    if "line" not in values:
        lines = values.get("lines", "").split()
        after = lines.index(values["other_line"]) + 1 if values.get("other_line") in lines else 0
        return ("get_details_by_id", {"id": lines[after]}) if after < len(lines) else None
    line = {"customer_id": values["customer"], "line_id": values["line"]}
    if "usage" not in values:
        return "get_data_usage", line
    if values["usage"] == "exceeded" and "refueled" not in values:
        return "refuel_data", {**line, "gb_amount": float(REFUEL)}
    return None
