//! Which containers a part of a tenant cluster has, and how their lines are shown.
//!
//! Invariant: pure. A line is shown without secrets of known forms and without what would write on a terminal.

use api::names::LABEL_COMPONENT;
use insight::text;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::args::logs::Part;

/// One container's log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Source {
    /// The pod.
    pub(crate) pod: String,
    /// Its container.
    pub(crate) container: String,
}

impl Source {
    /// `etcd-0/etcd`.
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.pod, self.container)
    }
}

/// The containers of these pods whose logs belong to a part; of no part in particular all of them. Where `only` names
/// containers, those.
pub(crate) fn sources(pods: &[Pod], part: Option<Part>, only: &[String]) -> Vec<Source> {
    let mut found = Vec::new();
    for pod in pods {
        let component = pod.labels().get(LABEL_COMPONENT);
        let component = component.map(String::as_str).unwrap_or_default();
        let spec = pod.spec.as_ref();
        let started = spec.map(|spec| spec.init_containers.iter().flatten());
        let main = spec.map(|spec| spec.containers.iter());
        let all = started
            .into_iter()
            .flatten()
            .chain(main.into_iter().flatten());
        let of_part = all.filter(|container| match part {
            None => true,
            Some(part) => is_of(part, component, &container.name),
        });
        let of_part = of_part.filter(|container| only.is_empty() || only.contains(&container.name));
        found.extend(of_part.map(|container| Source {
            pod: pod.name_any(),
            container: container.name.clone(),
        }));
    }
    found.sort_by(|a, b| (&a.pod, &a.container).cmp(&(&b.pod, &b.container)));
    found
}

/// Pods of kube-apiservers and of kube-controller-managers have several programs; the other parts have pods of their own.
fn is_of(part: Part, component: &str, container: &str) -> bool {
    match part {
        Part::Apiserver => container == "apiserver",
        Part::ControllerManager => container == "controller-manager",
        Part::Scheduler => container == "scheduler",
        Part::KonnectivityServer => container == "konnectivity-server",
        Part::Etcd => component == "etcd",
        Part::Backup => component == "backup",
        Part::Ccm => component == "ccm",
        Part::Csi => component == "csi",
        Part::Autoscaler => component == "autoscaler",
        Part::Operator => component == "operator",
    }
}

/// A line as the API gives it with `timestamps=true`: when it was written, and what.
pub(crate) fn dated(line: &str) -> (Option<Timestamp>, &str) {
    match line.split_once(' ') {
        Some((time, rest)) => match time.parse() {
            Ok(time) => (Some(time), rest),
            Err(_) => (None, line),
        },
        None => (line.parse().ok(), ""),
    }
}

/// A line for people: what Covey's programs write as JSON in words, of everything one line, redacted.
pub(crate) fn shown(line: &str) -> String {
    let parsed = Some(line).filter(|line| line.starts_with('{'));
    let parsed = parsed.and_then(|line| serde_json::from_str::<Value>(line).ok());
    match parsed.as_ref().and_then(in_words) {
        Some(words) => text::shown(&words),
        None => text::shown(line),
    }
}

/// `INFO operator::leader: it leads` of the JSON that tracing-subscriber, zap and klog write; None of other JSON.
fn in_words(line: &Value) -> Option<String> {
    let fields = &line["fields"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let message = [&fields["message"], &line["message"], &line["msg"]];
    let message = message.into_iter().find_map(text)?;
    let level = text(&line["level"]).unwrap_or_default().to_uppercase();
    let target = text(&line["target"]).map(|target| format!("{target}: "));
    let known = [
        "message",
        "msg",
        "level",
        "target",
        "timestamp",
        "ts",
        "fields",
        "span",
        "spans",
    ];
    let more = [line, fields];
    let more = more.into_iter().filter_map(Value::as_object).flatten();
    let more = more.filter(|(name, _)| !known.contains(&name.as_str()));
    let more = more.map(|(name, value)| match value {
        Value::String(text) => format!(" {name}={text}"),
        other => format!(" {name}={other}"),
    });
    let head = format!("{level} {}{message}", target.unwrap_or_default());
    Some(head.trim_start().to_owned() + &more.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, component: &str, containers: &[&str]) -> Pod {
        let containers: Vec<_> = containers
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        let pod = json!({ "metadata": { "name": name, "labels": { LABEL_COMPONENT: component } },
            "spec": { "initContainers": [{ "name": "first" }], "containers": containers } });
        serde_json::from_value(pod).unwrap()
    }

    fn labels(pods: &[Pod], part: Option<Part>) -> Vec<String> {
        sources(pods, part, &[]).iter().map(Source::label).collect()
    }

    #[test]
    fn a_part_has_the_containers_of_its_program_and_no_others() {
        let pods = [
            pod(
                "control-plane-b",
                "control-plane",
                &["apiserver", "konnectivity-server"],
            ),
            pod("etcd-0", "etcd", &["etcd"]),
        ];
        let server = Some(Part::Apiserver);
        assert_eq!(labels(&pods, server), ["control-plane-b/apiserver"]);
        // What a member was started with says why it was not.
        assert_eq!(
            labels(&pods, Some(Part::Etcd)),
            ["etcd-0/etcd", "etcd-0/first"]
        );
        assert_eq!(labels(&pods, Some(Part::Csi)), Vec::<String>::new());
        assert_eq!(labels(&pods, None).len(), 5);
        let only = sources(&pods, None, &["etcd".to_owned()]);
        let only: Vec<_> = only.iter().map(Source::label).collect();
        assert_eq!(only, ["etcd-0/etcd"]);
    }

    #[test]
    fn json_becomes_words_and_secrets_are_not_shown() {
        let line = json!({ "timestamp": "2026-11-27T12:00:00Z", "level": "INFO", "target": "operator::leader",
            "fields": { "message": "it leads", "term": 3 } });
        assert_eq!(
            shown(&line.to_string()),
            "INFO operator::leader: it leads term=3"
        );
        let zap = json!({ "level": "warn", "ts": "x", "msg": "slow fdatasync", "took": "1.2s" });
        assert_eq!(shown(&zap.to_string()), "WARN slow fdatasync took=1.2s");
        assert_eq!(shown("{\"a\":1}"), "{\"a\":1}");
        let said = shown(&json!({ "msg": "Authorization: Bearer sesame" }).to_string());
        assert!(!said.contains("sesame"), "{said}");
        assert_eq!(shown("I1127 \u{1b}[31mred"), "I1127 [31mred");
    }

    #[test]
    fn lines_have_the_time_at_which_they_were_written() {
        let (at, line) = dated("2026-11-27T12:00:00.000000001Z it leads");
        assert_eq!((at.is_some(), line), (true, "it leads"));
        assert_eq!(dated("no time"), (None, "no time"));
        assert_eq!(dated("2026-11-27T12:00:00Z").1, "");
    }
}
