//! Which resources take most of a tenant cluster's etcd, as its kube-apiserver says
//! (`apiserver_resource_size_estimate_bytes`, from 1.34 on).
//!
//! Invariant: a few names and numbers are kept of an answer; what cannot be read is not known.

use http::Request;
use kube::Client;

use super::session::Error;

/// As many are told.
const MOST: usize = 5;
/// Longest name that is told: those of definitions of others are a tenant's own choice.
const LONGEST: usize = 253;
const METRIC: &str = "apiserver_resource_size_estimate_bytes{";

/// A resource and the bytes that its objects take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Size {
    /// Its name, with its group: `events`, `leases.coordination.k8s.io`.
    pub resource: String,
    /// Bytes, as the kube-apiserver estimates them.
    pub bytes: u64,
}

/// The largest resources, the largest first; none where it does not say.
///
/// # Errors
/// [`Error::Read`].
pub async fn largest(client: &Client) -> Result<Vec<Size>, Error> {
    let mut request = Request::new(Vec::new());
    *request.uri_mut() = http::Uri::from_static("/metrics");
    let text = client.request_text(request).await;
    Ok(read(&text.map_err(|error| Error::Read(Box::new(error)))?))
}

fn read(metrics: &str) -> Vec<Size> {
    let mut sizes: Vec<_> = metrics.lines().filter_map(size).collect();
    // More than one server may have a say.
    sizes.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.resource.cmp(&b.resource)));
    sizes.truncate(MOST);
    sizes
}

fn size(line: &str) -> Option<Size> {
    let (labels, value) = line.strip_prefix(METRIC)?.rsplit_once("} ")?;
    let label = |name: &str| {
        let start = format!("{name}=\"");
        let mut labels = labels.split(',');
        let label = labels.find_map(|label| label.trim().strip_prefix(start.as_str()))?;
        label.strip_suffix('"')
    };
    let resource = match (label("resource")?, label("group").unwrap_or_default()) {
        (resource, "") => resource.to_owned(),
        (resource, group) => format!("{resource}.{group}"),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    let is_one = resource.len() <= LONGEST && resource.chars().all(is_name);
    // In the exposition format whole numbers may have an exponent; a negative one is an error of the server.
    let bytes: f64 = value.trim().parse().ok()?;
    let is_size = bytes.is_finite() && (1.0..9e15).contains(&bytes);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within these bounds"
    )]
    (is_one && is_size).then_some(Size {
        resource,
        bytes: bytes as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_resources_are_read_and_what_is_none_is_passed_over() {
        let text = r#"# TYPE apiserver_resource_size_estimate_bytes gauge
apiserver_resource_size_estimate_bytes{group="",resource="configmaps"} 8192
apiserver_resource_size_estimate_bytes{group="",resource="events"} 1.048576e+06
apiserver_resource_size_estimate_bytes{group="coordination.k8s.io",resource="leases"} 9000
apiserver_resource_size_estimate_bytes{group="",resource="pods"} -1
apiserver_resource_size_estimate_bytes{group="",resource="se crets"} 5e+06
apiserver_resource_size_estimate_bytes{group="",resource="nodes"} NaN
apiserver_resource_objects{resource="events"} 77
apiserver_resource_size_estimate_bytes{broken
"#;
        let read = read(text);
        let read: Vec<_> = read
            .iter()
            .map(|s| (s.resource.as_str(), s.bytes))
            .collect();
        let wanted = [
            ("events", 1 << 20),
            ("leases.coordination.k8s.io", 9000),
            ("configmaps", 8192),
        ];
        assert_eq!(read, wanted);
    }

    #[test]
    fn five_are_told_however_many_there_are() {
        let line = |n| format!("{METRIC}group=\"\",resource=\"r{n}\"}} {}\n", 10 + n);
        let text: String = (0..1000).map(line).collect();
        let read = read(&text);
        assert_eq!(read.len(), MOST);
        assert_eq!(read[0].resource, "r999");
    }
}
