"""Reads tickets, and results of calls as named values, such as ``airplane: on``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from trca.envs.tool_calls import Call
from trca_tau2.facts import Binding, Issue, Kind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CARRIER: Final = _words(
    """get_customer_by_phone get_customer_by_id get_customer_by_name get_details_by_id
    get_bills_for_customer get_data_usage"""
)
ACCOUNT: Final = _words(
    """suspend_line resume_line send_payment_request enable_roaming disable_roaming refuel_data
    make_payment"""
)
CHECKS: Final = _words(
    """check_status_bar check_network_status check_network_mode_preference run_speed_test
    check_sim_status check_data_restriction_status check_apn_settings check_wifi_status
    check_wifi_calling_status check_vpn_status check_installed_apps check_app_status
    check_app_permissions can_send_mms check_payment_request"""
)
REPAIRS: Final = _words(
    """set_network_mode_preference toggle_airplane_mode reseat_sim_card toggle_data toggle_roaming
    toggle_data_saver_mode set_apn_settings reset_apn_settings toggle_wifi toggle_wifi_calling
    connect_vpn disconnect_vpn grant_app_permission reboot_device"""
)
CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "set_network_mode_preference": ("mode", "network"),
    "toggle_airplane_mode": ("airplane",),
    "reseat_sim_card": ("sim",),
    "toggle_data": ("data",),
    "toggle_roaming": ("roaming",),
    "toggle_data_saver_mode": ("saver",),
    "set_apn_settings": ("apn", "mmsc"),
    "toggle_wifi_calling": ("wifi_calling",),
    "connect_vpn": ("vpn",),
    "disconnect_vpn": ("vpn",),
    "grant_app_permission": ("sms", "storage"),
    "reboot_device": ("apn", "mmsc"),
    "resume_line": ("line_status",),
    "suspend_line": ("line_status",),
    "enable_roaming": ("line_roaming",),
    "disable_roaming": ("line_roaming",),
    "refuel_data": ("usage",),
    "make_payment": ("bill",),
}
"""The values that each tool is for; a result may show others."""
PROVING: Final = _words(
    """toggle_airplane_mode toggle_data toggle_roaming toggle_data_saver_mode toggle_wifi_calling
    disconnect_vpn resume_line enable_roaming make_payment"""
)
"""Tools whose success shows that the value was wrong before."""
BEST_MODE: Final = "4g_5g_preferred"
TESTS: Final = {"service": "service", "mobile_data": "speed", "mms": "mms"}
"""The value that the ticket's own test shows, by issue."""
VOLATILE: Final = ("service", "speed", "mms", "network")
"""Values that any change may change."""
HOPELESS: Final = {"sim": "locked", "contract": "ended"}
"""Faults that only a human can repair."""
_WRONG: Final[Mapping[str, tuple[str, ...]]] = {
    "airplane": ("on",),
    "sim": ("missing", "locked"),
    "data": ("off",),
    "saver": ("on",),
    "network": ("2g", "3g"),
    "mode": ("4g_only", "3g_only", "2g_only"),
    "apn": ("broken",),
    "mmsc": ("missing",),
    "wifi_calling": ("on",),
    "vpn": ("on",),
    "sms": ("no",),
    "storage": ("no",),
    "line_status": ("suspended",),
    "usage": ("exceeded",),
    "contract": ("ended",),
    "bill": ("overdue",),
}
_ABROAD: Final = ("roaming", "line_roaming")
"""Settings that must be on if the customer is abroad."""
REFUEL: Final = "2"
"""The gigabytes that the policy allows to add, and the checks ask for."""
_TODAY: Final = "2025-02-25"
_SWITCHES: Final = {
    "Airplane Mode": "airplane",
    "Mobile Data": "data",
    "Data Roaming": "roaming",
    "Data Saver Mode": "saver",
    "Wi-Fi Calling": "wifi_calling",
}
_SWITCHED: Final = re.compile(rf"({'|'.join(_SWITCHES)}) is now (ON|OFF)\.")
_NETWORK: Final = {
    "Airplane Mode": "airplane",
    "SIM Card Status": "sim",
    "Cellular Connection": "service",
    "Cellular Network Type": "network",
    "Mobile Data Enabled": "data",
    "Data Roaming Enabled": "roaming",
}
_ISSUES: Final[Mapping[str, Issue]] = {
    "unable to send MMS": "mms",
    "issues with their mobile data": "mobile_data",
    "issues with their phone service": "service",
}


def read_ticket(instruction: str) -> Binding:
    """Reads issue, phone number and place of a ticket."""
    number = re.search(r"phone number: (\d{3}-\d{3}-\d{4})", instruction)
    issues = (issue for words, issue in _ISSUES.items() if words in instruction)
    return Binding(
        issue=next(issues, ""),
        phone_number=number[1] if number else "",
        abroad="current location: abroad" in instruction,
    )


def kind_of(name: str) -> Kind:
    """The kind of a tool, see `Facts`."""
    if name in CARRIER:
        return "lookup"
    if name in ACCOUNT:
        return "account"
    if name in CHECKS:
        return "check"
    if name in REPAIRS:
        return "repair"
    kinds: Mapping[str, Kind] = {"transfer_to_human_agents": "escalate", "done": "done"}
    return kinds.get(name, "unknown")


def is_wrong(name: str, value: str, binding: Binding) -> bool:
    """Whether a value is a fault for the ticket of the binding."""
    if name in _ABROAD:
        return binding.abroad and value == "off"
    return value in _WRONG.get(name, ())


def is_right(name: str, value: str, binding: Binding) -> bool:
    """Whether a value can be a fault and is none."""
    known = value not in ("", "none") and (name in _ABROAD or name in _WRONG)
    return known and not is_wrong(name, value, binding)


def read_result(call: Call, result: str, line: str, binding: Binding) -> dict[str, str]:
    """The values in the result of a call without error; empty for a text of another form.

    ``line`` is the id of the line of the ticket; empty if it is unknown.
    """
    name = call.name
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    if name in CARRIER or name in ACCOUNT:
        try:
            return _carrier(name, arguments, result, line, binding)
        except (AttributeError, KeyError, TypeError, ValueError):
            return {}
    first = result.partition("\n")[0]
    values: dict[str, str] = {}
    if kind_of(name) in ("check", "repair"):
        for switch, state in _SWITCHED.findall(first):
            values[_SWITCHES[switch]] = state.lower()
        if bar := re.search(r"Status Bar: (.+)$", result):
            values |= _status_bar(bar[1])
    messaging = arguments.get("app_name") == "messaging"
    if name == "check_network_status":
        values |= _network(result)
    elif name == "check_sim_status":
        found = re.search(r"No SIM|active|locked", result)
        values["sim"] = {"No SIM": "missing"}.get(found[0], found[0]) if found else "unknown"
    elif name == "reseat_sim_card":
        values["sim"] = "active" if values.get("service") == "yes" else "seated"
    elif name == "check_network_mode_preference":
        values["mode"] = result.rpartition(" ")[2]
    elif name == "set_network_mode_preference" and first.startswith("Preferred"):
        values["mode"] = first.rpartition(" ")[2]
    elif name == "check_data_restriction_status":
        values["saver"] = "on" if " is ON" in result else "off"
    elif name == "check_apn_settings":
        values["apn"] = "broken" if "Name: broken" in result else "internet"
        values["mmsc"] = "missing" if "Not Set" in result else "set"
    elif name == "set_apn_settings":
        written = arguments.get("apn_settings")
        no_url = isinstance(written, dict) and written.get("mmsc_url", "set") is None
        values["apn"] = "broken" if "broken" in first else "internet"
        values["mmsc"] = "missing" if no_url else "set"
    elif name == "reset_apn_settings":
        values["apn_reset"] = "pending"
    elif name == "reboot_device" and "Resetting APN" in first:
        values |= {"apn": "internet", "mmsc": "set", "apn_reset": "applied"}
    elif name == "check_wifi_calling_status":
        values["wifi_calling"] = "on" if " ON." in result else "off"
    elif name in ("connect_vpn", "disconnect_vpn"):
        done = first.endswith("connected successfully.")
        values |= {"vpn": "on" if name == "connect_vpn" else "off"} if done else {}
    elif name == "check_vpn_status":
        values["vpn"] = "on" if "ON and connected" in result else "off"
    elif name in ("check_app_status", "check_app_permissions") and messaging:
        for each in ("sms", "storage"):
            values[each] = "yes" if re.search(rf"\b{each}\b", result) else "no"
    elif name == "grant_app_permission" and messaging and first.startswith("Success"):
        granted = str(arguments.get("permission")).lower()
        values |= {granted: "yes"} if granted in ("sms", "storage") else {}
    elif name == "run_speed_test":
        speed = re.search(r"Mbps \(([\w ]+)\)", result)
        values["speed"] = speed[1].lower().replace(" ", "_") if speed else "none"
    elif name == "can_send_mms":
        values["mms"] = "yes" if " can send" in result else "no"
    return values


def works(issue: str, values: Mapping[str, str]) -> bool:
    """Whether the ticket's own test has succeeded, as far as the values tell."""
    return values.get(TESTS.get(issue, "")) in ("yes", "excellent")


def _status_bar(bar: str) -> dict[str, str]:
    if "Airplane Mode" in bar:
        return {"airplane": "on", "service": "no", "network": "none"}
    network = re.search(r"\b[2345]G\b", bar)
    values = {"airplane": "off", "service": "no" if "No Signal" in bar else "yes"}
    values["network"] = network[0].lower() if network else "none"
    values["vpn"] = "on" if "VPN" in bar else "off"
    if network:
        values["data"] = "on" if "Data Enabled" in bar else "off"
    if "Data Enabled" in bar:
        values["saver"] = "on" if "Data Saver" in bar else "off"
    return values


def _network(result: str) -> dict[str, str]:
    words = {"connected": "yes", "no_service": "no", "Yes": "on", "No": "off"}
    values = {}
    for key, value in re.findall(r"^([\w ]+): (\w+)$", result, re.M):
        if key in _NETWORK:
            values[_NETWORK[key]] = words.get(value, value.partition("_")[0].lower())
    return values


def _carrier(
    name: str, arguments: Mapping[str, Any], result: str, line: str, binding: Binding
) -> dict[str, str]:
    """Values in the results of the carrier's tools, which are JSON or a sentence."""
    values: dict[str, str] = {}
    own = arguments.get("line_id") == line != ""
    if name in ("enable_roaming", "disable_roaming"):
        return {"line_roaming": "on" if name[0] == "e" else "off"} if own else {}
    if name == "send_payment_request":
        return {"bill": "awaiting", "bill_id": str(arguments["bill_id"])}
    if name == "make_payment":
        return {"bill": "paid"} if result.startswith("Payment of") else {}
    found = json.loads(result)
    if name == "refuel_data":
        refueled = f"{float(found['new_data_refueling_gb']):g}"
        usage = {"usage": "refueled"} if refueled == REFUEL else {}
        return {"refueled": refueled, **usage} if own else {}
    if name == "get_data_usage" and own:
        limit = float(found["data_limit_gb"]) + float(found["data_refueling_gb"])
        exceeded = float(found["data_used_gb"]) >= limit
        return {"usage": "exceeded" if exceeded else "ok"}
    for part in found if isinstance(found, list) else [found.get("line", found)]:
        if part.get("phone_number") == binding.phone_number and "line_ids" in part:
            values["customer"] = part["customer_id"]
            values["lines"] = " ".join(part["line_ids"])
        elif part.get("phone_number") == binding.phone_number and "plan_id" in part:
            values["line"] = part["line_id"]
            values["line_status"] = part["status"].lower()
            values["line_roaming"] = "on" if part["roaming_enabled"] else "off"
            values["contract"] = "ended" if part["contract_end_date"] < _TODAY else "valid"
        elif "plan_id" in part and "line_id" in part:
            values["other_line"] = part["line_id"]
        elif part.get("status") in ("Overdue", "Awaiting Payment") and "bill_id" in part:
            values |= {"bill_id": part["bill_id"], "bill": part["status"].split()[0].lower()}
        elif part.get("status") == "Paid" and "bill_id" in part and arguments.get("id"):
            values["bill_paid"] = part["bill_id"]
    if name == "get_bills_for_customer" and "bill" not in values:
        values["bill"] = "none"
    return values
