//! Which golden file etcd began with, as its start gate says it in the pod's status (docs/adr/0023-golden-start.md).
//!
//! Invariant: the word and the name of a file are read, and nothing else; a tenant writes neither.

use serde_json::Value;
use tenant_cp::names;

/// What the gate's sentence begins with where it gave etcd a golden file, whose name follows.
const WORD: &str = "GoldenStart: ";
/// Longest name of one, in bytes (`config.goldenStarts`).
const LONGEST_NAME: usize = 128;

/// Name of the golden file that etcd in this pod, as JSON, began with; none where its gate does not say so.
#[must_use]
pub fn file(pod: &Value) -> Option<String> {
    let gates = pod["status"]["initContainerStatuses"].as_array();
    let mut gates = gates.into_iter().flatten();
    let gate = gates.find(|container| container["name"] == names::ETCD_GATE)?;
    let ended = &gate["state"]["terminated"];
    let message = ended["message"].as_str()?;
    let (file, _) = message.strip_prefix(WORD)?.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_file = (1..=LONGEST_NAME).contains(&file.len()) && file.bytes().all(is_name);
    (ended["exitCode"] == 0 && is_file).then(|| file.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn golden_file_that_a_gate_gave_is_known_by_its_word_alone() {
        let told = |code: i64, message: &str| {
            let ended = json!({ "terminated": { "exitCode": code, "message": message } });
            let gate = json!({ "name": "gate", "state": ended });
            file(&json!({ "status": { "initContainerStatuses": [gate] } }))
        };
        let said = "GoldenStart: kubernetes-1.36.3.db: etcd-0 starts for the first time";
        assert_eq!(told(0, said).as_deref(), Some("kubernetes-1.36.3.db"));
        assert_eq!(told(10, said), None);
        for other in [
            "Start: etcd-0 starts for the first time, without data",
            "GoldenStart: a b: x",
            "GoldenStart: : x",
            "GoldenStart: a.db",
            "",
        ] {
            assert_eq!(told(0, other), None, "{other}");
        }
        assert_eq!(file(&json!({})), None);
    }
}
