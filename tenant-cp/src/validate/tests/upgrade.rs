//! What is said of an upgrade.

use super::*;

#[test]
fn time_that_cannot_be_had_is_refused_with_what_to_write() {
    for (soak, message) in [
        (
            "soon",
            "spec.upgrade.soak: \"soon\" is not a length of time: write hours, minutes and seconds, such as 90s, \
             5m or 1h30m",
        ),
        (
            "25h",
            "spec.upgrade.soak: 25h cannot be had: choose 0s to 24h",
        ),
    ] {
        let spec = json!({ "spec": { "upgrade": { "soak": soak } } });
        assert_eq!(seen(&spec), [message]);
    }
    for deadline in ["59s", "25h", "0s"] {
        let spec = json!({ "spec": { "upgrade": { "deadline": deadline } } });
        let message = format!("spec.upgrade.deadline: {deadline} cannot be had: choose 1m to 24h");
        assert_eq!(seen(&spec), [message]);
    }
    let longest = json!({ "spec": { "upgrade": { "soak": "24h" } } });
    assert_eq!(seen(&longest), [""; 0]);
}
