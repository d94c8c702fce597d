//! What is said of a backup.

use super::*;

#[test]
fn backup_that_no_process_could_be_told_is_refused_with_what_to_write() {
    for (backup, message) in [
        (
            json!({ "target": "a b" }),
            "spec.backup.target: \"a b\" cannot be the name of a BackupTarget: use lower-case letters, digits, - \
             and ., as `kubectl get backuptargets` shows them",
        ),
        (
            json!({ "target": "main", "delta": "soon" }),
            "spec.backup.delta: \"soon\" is not a length of time: write hours, minutes and seconds, such as 90s, \
             5m or 1h30m",
        ),
        (
            json!({ "target": "main", "delta": "2h" }),
            "spec.backup.delta: 2h cannot be had: choose 1s to 1h",
        ),
        (
            json!({ "target": "main", "full": "5m" }),
            "spec.backup.full: 5m cannot be had: choose 1h to 720h",
        ),
        (
            json!({ "target": "main", "restoreTest": "5h" }),
            "spec.backup.restoreTest: 5h cannot be had: choose 24h to 2160h, or 0s for never",
        ),
    ] {
        assert_eq!(seen(&json!({ "spec": { "backup": backup } })), [message]);
    }
    let usual = json!({ "target": "main.eu", "full": "1h", "delta": "1s" });
    assert_eq!(seen(&json!({ "spec": { "backup": usual } })), [""; 0]);
    let never = json!({ "target": "main", "restoreTest": "0s" });
    assert_eq!(seen(&json!({ "spec": { "backup": never } })), [""; 0]);
}
