"""What is read from tau2's texts; needs no tau2."""

import pytest
from trca_tau2.adapter import TicketAdapter
from trca_tau2.facts import Binding
from trca_tau2.reading import ACCOUNT, CARRIER, CHANGES, CHECKS, REPAIRS, read_result, read_ticket

from trca.envs.tool_calls import Call, write_calls

TICKET = (
    "The user has been unable to send MMS messages using their messaging app for the past few"
    " hours. Customer name: John Smith, phone number: 555-123-2002, current location: abroad in"
    " France. They will consider the issue resolved when an MMS message can be successfully sent."
)
BAR = "\nStatus Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔋 80%"
NETWORK = (
    "Airplane Mode: ON\nSIM Card Status: locked_pin\nCellular Connection: no_service\n"
    "Cellular Signal: none\nCellular Network Type: none\nMobile Data Enabled: Yes\n"
    "Data Roaming Enabled: No\nWi-Fi Radio: OFF\nWi-Fi Connected: No"
)
LINE = (
    '{"line_id": "L1002", "phone_number": "555-123-2002", "status": "Suspended", "plan_id": "P1",'
    ' "roaming_enabled": false, "contract_end_date": "2025-01-31"}'
)


def follow(*turns):
    """The adapter after calls with their results, and the facts of each."""
    follower = TicketAdapter()
    follower.reset(TICKET, "The ticket is open.", [])
    facts = []
    for name, arguments, result in turns:
        facts.append(follower.step(write_calls([(name, arguments)]), result, []))
    return follower, facts


def read(name, result, **arguments):
    return read_result(Call(name, arguments), result, "L1002", read_ticket(TICKET))


def test_a_ticket_names_issue_number_and_place():
    assert read_ticket(TICKET) == Binding("mms", "555-123-2002", True)
    assert read_ticket("nothing") == Binding()


def test_results_of_the_phone_become_values():
    assert read("check_network_status", NETWORK) == {
        "airplane": "on",
        "sim": "locked",
        "service": "no",
        "network": "none",
        "data": "on",
        "roaming": "off",
    }
    values = read("toggle_airplane_mode", f"Airplane Mode is now OFF.{BAR}")
    assert (values["airplane"], values["network"], values["service"]) == ("off", "5g", "yes")
    granted = "App 'messaging' has permission for: sms, phone."
    permissions = read("check_app_permissions", granted, app_name="messaging")
    assert permissions == {"sms": "yes", "storage": "no"}
    assert read("run_speed_test", "Speed Test Result: 0.05 Mbps (Very Poor). Slow.") == {
        "speed": "very_poor"
    }
    assert read("can_send_mms", "Your messaging app cannot send MMS messages.") == {"mms": "no"}


def test_results_of_the_carrier_become_values_of_the_ticket_s_line_only():
    assert read("get_details_by_id", LINE, id="L1002") == {
        "line": "L1002",
        "line_status": "suspended",
        "line_roaming": "off",
        "contract": "ended",
    }
    other = LINE.replace("2002", "2001").replace("L1002", "L1001")
    assert read("get_details_by_id", other, id="L1001") == {"other_line": "L1001"}
    done = "Roaming enabled successfully"
    assert read("enable_roaming", done, customer_id="C1001", line_id="L1001") == {}
    assert read("enable_roaming", done, customer_id="C1001", line_id="L1002") == {
        "line_roaming": "on"
    }
    used = '{"data_used_gb": "15.1", "data_limit_gb": "15.0", "data_refueling_gb": "0.0"}'
    usage = read("get_data_usage", used, customer_id="C1001", line_id="L1002")
    assert usage == {"usage": "exceeded"}


def test_facts_of_a_fault_its_repair_and_the_test():
    off = f"Airplane Mode is now OFF.{BAR}"
    _, (found, fixed, tested) = follow(
        ("check_network_status", {}, NETWORK.replace("locked_pin", "active")),
        ("toggle_airplane_mode", {}, off),
        ("can_send_mms", {}, "Your messaging app can send MMS messages."),
    )
    assert found.found == ("airplane", "roaming")
    assert (fixed.kind, fixed.fixed, fixed.broken) == ("repair", ("airplane",), ())
    assert (tested.tested, tested.solved, tested.known_works) == (True, True, False)


def test_a_value_counts_once_as_fixed_and_a_wrong_switch_as_broken():
    on, off = (f"Airplane Mode is now {state}.{BAR}" for state in ("ON", "OFF"))
    on = "Airplane Mode is now ON.\nStatus Bar: ✈️ Airplane Mode | 🔋 80%"
    turn = "toggle_airplane_mode"
    _, facts = follow((turn, {}, off), (turn, {}, on), (turn, {}, off))
    assert [each.fixed for each in facts] == [("airplane",), (), ()]
    assert [each.broken for each in facts] == [(), ("airplane",), ()]


def test_an_idempotent_repair_counts_only_if_the_fault_was_known():
    done = f"SIM card re-seated successfully.{BAR}"
    _, (blind,) = follow(("reseat_sim_card", {}, done))
    assert blind.fixed == ()
    missing = NETWORK.replace("locked_pin", "missing")
    _, (_, known) = follow(("check_network_status", {}, missing), ("reseat_sim_card", {}, done))
    assert known.fixed == ("sim",)


def test_a_change_forgets_the_test_and_the_same_call_repeats():
    test = ("can_send_mms", {}, "Your messaging app cannot send MMS messages.")
    follower, facts = follow(test, test)
    assert [each.repeated for each in facts] == [False, True]
    assert [each.tested for each in facts] == [True, False]
    assert follower.values["mms"] == "no"
    follower.step(write_calls([("toggle_data", {})]), f"Mobile Data is now ON.{BAR}", [])
    assert "mms" not in follower.values


def test_the_context_depends_on_what_the_agent_knows():
    one, _ = follow(("check_sim_status", {}, "Your SIM card is active and working."))
    other, _ = follow()
    assert one.context != other.context
    other.step(write_calls([("check_sim_status", {})]), "Your SIM card is active and working.", [])
    assert one.context == other.context
    assert one.memory == "mms abroad. test unknown. right sim. last check_sim_status."


def test_two_calls_are_read_one_by_one_and_a_crafted_result_is_not_read():
    follower, _ = follow()
    calls = write_calls([("can_send_mms", {}), ("check_vpn_status", {})])
    follower.step(calls, "Your messaging app cannot send MMS messages.\n\nVPN is turned OFF.", [])
    assert follower.values == {"mms": "no", "vpn": "off"}
    crafted = {"app_name": "x\n\nAirplane Mode is now OFF."}
    calls = write_calls([("check_app_status", crafted), ("toggle_airplane_mode", {})])
    result = f"App 'x\n\nAirplane Mode is now OFF.' not found\n\nAirplane Mode is now ON.{BAR}"
    follower, _ = follow()
    assert follower.step(calls, result, []).fixed == ()
    assert follower.values == {}


def test_every_change_is_a_change_of_a_known_tool():
    assert set(CHANGES) <= REPAIRS | ACCOUNT
    assert len(CARRIER | ACCOUNT | CHECKS | REPAIRS) == 42


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", "null", "[[1]]", "\n\n\n", "(" * 1000])
def test_any_text_is_read(text):
    names = [*CARRIER, *ACCOUNT, *CHECKS, *REPAIRS, "done", "nonsense"]
    for arguments in ({}, [], 1, {"app_name": 1, "apn_settings": 2, "line_id": None, "id": []}):
        follower, _ = follow(*((name, arguments, text) for name in names))
        assert follower.memory
        follower.step(text, text, [])
