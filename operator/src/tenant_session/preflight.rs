//! Questions to a tenant's API before an upgrade: nodes, deprecated APIs, webhooks, APIServices, disruption budgets.
//!
//! Lists are asked for as tables, which have a few cells for each object whatever that holds.
//! Invariant: each question is answered or says why not; of what a tenant answers numbers and short names are kept,
//! and there is a most of each.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use http::Request;
use kit_client::errors::chain;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tenant_cp::version;

pub mod answers;
pub mod names;
mod request;
pub mod webhooks;

use self::answers::{Answer, Counted, Deprecated, Inside};
use self::names::Names;
use self::request::get;

/// Rows of one page of a table.
const PAGE: usize = 250;
/// Pages of one table.
const MOST_PAGES: usize = 20;
/// Versions of kubelets that are told apart.
const MOST_VERSIONS: usize = 64;
/// Resources that are kept of what a server counted.
const MOST_RESOURCES: usize = 64;
/// Longest name that is kept: those of definitions of others are a tenant's own choice.
const LONGEST: usize = 253;
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const DEPRECATED: &str = "apiserver_requested_deprecated_apis{";
const UNDECODABLE: &str = "apiserver_storage_decode_errors_total{";

/// Asks all of it: `client` once, and each of its kube-apiservers (`servers`) what it counted. Of a server that
/// there is no client for the reason is told.
pub async fn ask(client: &Client, servers: &[Result<Client, String>]) -> Inside {
    let (kubelets, counted, webhooks, unavailable, tight_budgets) = futures::join!(
        kubelets(client),
        counted(servers),
        webhooks::critical(client),
        unavailable(client),
        tight_budgets(client),
    );
    Inside {
        kubelets,
        counted,
        webhooks,
        unavailable,
        tight_budgets,
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Table {
    kind: String,
    metadata: Continue,
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Continue {
    r#continue: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Column {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    cells: Vec<Value>,
    object: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Meta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    namespace: String,
}

/// Calls `each` for the cells of these columns of every row, and for the namespace where objects have one.
async fn rows(
    client: &Client,
    path: &str,
    objects: &str,
    columns: &[&str],
    mut each: impl FnMut(&[&Value], &str) -> Answer<()>,
) -> Answer<()> {
    let mut next = String::new();
    for _ in 0..MOST_PAGES {
        let page = format!("{path}?limit={PAGE}&includeObject={objects}{next}");
        let table: Table = get(client, &page, TABLE).await?;
        if table.kind != "Table" {
            return Err(format!("{path} is not answered with a table"));
        }
        if !table.rows.is_empty() {
            let place = |name: &&str| {
                let mut columns = table.column_definitions.iter();
                let place = columns.position(|column| column.name == *name);
                place.ok_or_else(|| format!("the table of {path} has no column {name}"))
            };
            let places: Vec<usize> = columns.iter().map(place).collect::<Answer<_>>()?;
            for row in &table.rows {
                let cell = |place: &usize| row.cells.get(*place).unwrap_or(&Value::Null);
                let cells: Vec<_> = places.iter().map(cell).collect();
                let namespace = row.object.as_ref().map(|object| &object.metadata.namespace);
                each(&cells, namespace.map_or("", String::as_str))?;
            }
        }
        let token = table.metadata.r#continue;
        if token.is_empty() {
            return Ok(());
        }
        next = format!("&continue={}", escaped(&token));
    }
    Err(format!(
        "{path} has more than {} objects",
        PAGE * MOST_PAGES
    ))
}

/// As part of a query: what has a meaning there is written as its bytes.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

async fn kubelets(client: &Client) -> Answer<BTreeMap<String, Names>> {
    let mut kubelets: BTreeMap<String, Names> = BTreeMap::new();
    let each = |cells: &[&Value], _: &str| {
        let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
        let (name, said) = (text(cells[0]), text(cells[1]));
        let said: String = said.chars().take(LONGEST).collect();
        let many = kubelets.len();
        match kubelets.entry(said) {
            Entry::Vacant(_) if many >= MOST_VERSIONS => {
                return Err(format!("nodes have more than {MOST_VERSIONS} versions"));
            }
            entry => entry.or_default().add(&name),
        }
        Ok(())
    };
    rows(client, "/api/v1/nodes", "None", &["Name", "Version"], each).await?;
    Ok(kubelets)
}

async fn unavailable(client: &Client) -> Answer<Names> {
    let mut names = Names::default();
    let each = |cells: &[&Value], _: &str| {
        // `False (ServiceNotFound)`.
        let available = cells[1].as_str().unwrap_or_default();
        if available != "True" {
            names.add(cells[0].as_str().unwrap_or_default());
        }
        Ok(())
    };
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    rows(client, path, "None", &["Name", "Available"], each).await?;
    Ok(names)
}

async fn tight_budgets(client: &Client) -> Answer<Names> {
    let mut names = Names::default();
    let each = |cells: &[&Value], namespace: &str| {
        if cells[1].as_i64().is_none_or(|allowed| allowed < 1) {
            let name = cells[0].as_str().unwrap_or_default();
            names.add(&format!("{namespace}/{name}"));
        }
        Ok(())
    };
    let path = "/apis/policy/v1/poddisruptionbudgets";
    let columns = ["Name", "Allowed Disruptions"];
    rows(client, path, "Metadata", &columns, each).await?;
    Ok(names)
}

/// Each server counts what it was asked itself, since it started.
async fn counted(servers: &[Result<Client, String>]) -> Answer<Counted> {
    if servers.is_empty() {
        return Err("no kube-apiserver could be asked what it counted".to_owned());
    }
    let each = servers.iter().map(|server| async move {
        let client = server.as_ref().map_err(Clone::clone)?;
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = http::Uri::from_static("/metrics");
        let text = client.request_text(request).await;
        read(&text.map_err(|error| chain(&error))?)
    });
    let mut all = Counted::default();
    for counted in futures::future::join_all(each).await {
        let counted = counted?;
        all.deprecated.extend(counted.deprecated);
        all.undecodable.extend(counted.undecodable);
    }
    Ok(all)
}

fn read(metrics: &str) -> Answer<Counted> {
    let mut counted = Counted::default();
    for line in metrics.lines() {
        if let Some(one) = sample(line, DEPRECATED) {
            let removed = one.label("removed_release").and_then(minor);
            // What nobody has said to remove goes on.
            if let (Some(removed), Some(resource)) = (removed, one.resource()) {
                counted.deprecated.insert(Deprecated { removed, resource });
            }
        } else if let Some(one) = sample(line, UNDECODABLE) {
            counted.undecodable.extend(one.resource());
        }
        if counted.deprecated.len() + counted.undecodable.len() > MOST_RESOURCES {
            return Err(format!(
                "a kube-apiserver names more than {MOST_RESOURCES} resources"
            ));
        }
    }
    Ok(counted)
}

/// The minor of `1.37`.
fn minor(release: &str) -> Option<u64> {
    let version = version::parse(&format!("{release}.0")).ok()?;
    (version.major == 1).then_some(version.minor)
}

/// A sample of a metric, of more than nothing.
struct Sample<'a>(&'a str);

fn sample<'a>(line: &'a str, metric: &str) -> Option<Sample<'a>> {
    let (labels, value) = line.strip_prefix(metric)?.rsplit_once("} ")?;
    let value: f64 = value.trim().parse().ok()?;
    (value > 0.0).then_some(Sample(labels))
}

impl Sample<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        let start = format!("{name}=\"");
        let mut labels = self.0.split(',');
        let label = labels.find_map(|label| label.trim().strip_prefix(start.as_str()))?;
        label.strip_suffix('"')
    }

    /// `networking.k8s.io/v1beta1 servicecidrs`, as far as the labels say.
    fn resource(&self) -> Option<String> {
        let group = self.label("group").unwrap_or_default();
        let version = self.label("version").unwrap_or_default();
        let (resource, part) = (
            self.label("resource")?,
            self.label("subresource").unwrap_or_default(),
        );
        let mut name = group.to_owned();
        for (mark, more) in [("/", version), (" ", resource), ("/", part)] {
            if !name.is_empty() && !more.is_empty() {
                name.push_str(mark);
            }
            name.push_str(more);
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-./ ".contains(c);
        (!resource.is_empty() && name.len() <= LONGEST && name.chars().all(is_name)).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_counted_is_read_and_what_is_none_is_passed_over() {
        let text = r#"# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="networking.k8s.io",removed_release="1.37",resource="servicecidrs",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="a.io",removed_release="1.40",resource="b",subresource="status",version="v1"} 1
apiserver_requested_deprecated_apis{group="a.io",removed_release="1.40",resource="calm",subresource="",version="v1"} 0
apiserver_requested_deprecated_apis{group="a.io",removed_release="1.40",resource="<b>",subresource="",version="v1"} 1
apiserver_storage_decode_errors_total{group="",resource="pods"} 3
apiserver_storage_decode_errors_total{group="",resource="secrets"} 0
apiserver_requested_deprecated_apis{broken
"#;
        let counted = read(text).unwrap();
        let deprecated: Vec<_> = (counted.deprecated.iter())
            .map(|one| (one.removed, one.resource.as_str()))
            .collect();
        let wanted = [
            (37, "networking.k8s.io/v1beta1 servicecidrs"),
            (40, "a.io/v1 b/status"),
        ];
        assert_eq!(deprecated, wanted);
        assert_eq!(counted.undecodable, ["pods".to_owned()].into());
    }

    #[test]
    fn server_that_names_ever_more_is_not_believed() {
        let line = |n| format!("{UNDECODABLE}group=\"\",resource=\"r{n}\"}} 1\n");
        let text: String = (0..1000).map(line).collect();
        assert!(read(&text).is_err());
    }

    #[test]
    fn token_of_a_page_says_nothing_else_in_a_query() {
        assert_eq!(escaped("a&b=c d%"), "a%26b%3Dc%20d%25");
    }
}
