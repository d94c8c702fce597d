//! What a kube-apiserver has counted of use of a tenant cluster ([`idle`]), as its metrics say.
//!
//! Invariant: numbers alone are kept of an answer; one that does not count by FlowSchemas is not known.

use http::Request;
use kit_client::errors::chain;
use kube::Client;

use crate::hibernation::idle;

const DISPATCHED: &str = "apiserver_flowcontrol_dispatched_requests_total{";
const ANSWERED: &str = "apiserver_request_total{";
const LONG: &str = "apiserver_longrunning_requests{";
const BEGAN: &str = "process_start_time_seconds ";
/// What people hold on to, which may last for hours. A kube-apiserver lets it past its FlowSchemas, and counts it when it
/// ends (`filters/priority-and-fairness.go`).
const HELD: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// What one has counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// When its process began, and how many requests since: another process counts from the beginning.
    pub mark: String,
    /// Whether somebody holds on to a pod now: a shell, logs, a port.
    pub is_held: bool,
}

/// Asks one kube-apiserver.
///
/// # Errors
/// Why it is not known.
pub async fn ask(client: &Client) -> Result<Counted, String> {
    let mut request = Request::new(Vec::new());
    *request.uri_mut() = http::Uri::from_static("/metrics");
    let text = client.request_text(request).await;
    read(&text.map_err(|error| chain(&error))?)
}

fn read(metrics: &str) -> Result<Counted, String> {
    let (mut began, mut requests, mut is_held) = (None, None, false);
    let mut ended = 0.0;
    for line in metrics.lines() {
        if let Some(value) = line.strip_prefix(BEGAN) {
            began = value.trim().parse::<f64>().ok();
        } else if let Some((labels, value)) = sample(line, DISPATCHED) {
            let used = match label(labels, "flow_schema") {
                Some(schema) if !idle::is_use(schema) => 0.0,
                _ => value,
            };
            requests = Some(requests.unwrap_or(0.0) + used);
        } else if let Some((labels, value)) = sample(line, LONG) {
            is_held |= value > 0.0 && can_be_held(labels);
        } else if let Some((labels, value)) = sample(line, ANSWERED) {
            ended += if can_be_held(labels) { value } else { 0.0 };
        }
    }
    let began = began.ok_or("a kube-apiserver does not say when it began")?;
    let requests = requests.ok_or(
        "a kube-apiserver does not count requests by FlowSchema: is --enable-priority-and-fairness off?",
    )?;
    Ok(Counted {
        mark: format!("{began}:{}", requests + ended),
        is_held,
    })
}

fn can_be_held(labels: &str) -> bool {
    let subresource = label(labels, "subresource").unwrap_or_default();
    HELD.contains(&subresource)
}

fn sample<'a>(line: &'a str, metric: &str) -> Option<(&'a str, f64)> {
    let (labels, value) = line.strip_prefix(metric)?.rsplit_once("} ")?;
    Some((labels, value.trim().parse().ok()?))
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut labels = labels.split(',');
    let value = labels.find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""))?;
    value.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE apiserver_flowcontrol_dispatched_requests_total counter
apiserver_flowcontrol_dispatched_requests_total{flow_schema="covey",priority_level="global-default"} 70
apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"} 1.5e+06
apiserver_flowcontrol_dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} 40
apiserver_flowcontrol_dispatched_requests_total{flow_schema="service-accounts",priority_level="workload-low"} 2
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 9
process_start_time_seconds 1.7698608005e+09
"#;

    #[test]
    fn use_alone_is_counted_from_when_the_process_began() {
        let counted = read(METRICS).unwrap();
        assert_eq!(counted.mark, "1769860800.5:42");
        assert!(!counted.is_held);
        let own = METRICS
            .replace("} 70", "} 7000")
            .replace("1.5e+06", "2e+06");
        assert_eq!(read(&own), Ok(counted));
    }

    #[test]
    fn whoever_holds_on_to_a_pod_uses_it() {
        let of = |subresource: &str, number: u8| {
            format!(
                "{METRICS}{LONG}resource=\"pods\",subresource=\"{subresource}\",verb=\"CONNECT\"}} {number}\n"
            )
        };
        assert!(read(&of("exec", 1)).unwrap().is_held);
        assert!(!read(&of("exec", 0)).unwrap().is_held);
        assert!(!read(&of("status", 1)).unwrap().is_held);
    }

    #[test]
    fn what_was_held_and_has_ended_between_two_looks_is_counted() {
        let of = |subresource: &str| {
            let labels = format!("code=\"200\",subresource=\"{subresource}\",verb=\"CONNECT\"");
            format!("{METRICS}{ANSWERED}{labels}}} 3\n")
        };
        assert_eq!(read(&of("proxy")).unwrap().mark, "1769860800.5:45");
        assert_eq!(read(&of("")).unwrap().mark, "1769860800.5:42");
    }

    #[test]
    fn one_that_does_not_count_is_not_known() {
        let without = |text: &str| {
            let lines = METRICS.lines().filter(|line| !line.starts_with(text));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert!(read(&without(DISPATCHED)).is_err());
        assert!(read(&without(BEGAN)).is_err());
        assert!(read("").is_err());
    }
}
