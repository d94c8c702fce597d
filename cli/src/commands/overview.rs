//! `covey hosts`, `quota` and `fleet`: lists with what matters beside each other.
//!
//! Invariant: JSON and YAML are the objects themselves; what may not be read is a line on standard error.

use api::{FleetPolicy, Host, TenantCluster, TenantQuota};
use jiff::Timestamp;
use kit_objects::known::Known;
use kube::api::{Api, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::args::overview::{Fleet, Overview};
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::kinds::name_of;
use crate::output::{result, say, structured};
use crate::overview;
use crate::terminal::fitted;
use insight_read::reader::Reader;
use insight_read::request::{self, PAGES};

pub(super) async fn hosts(global: &Global, args: &Overview) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let api: Api<Host> = match args.all_namespaces {
        true => Api::all(connection.client),
        false => Api::namespaced(connection.client, &connection.namespace),
    };
    let mut all = read(&api, &args.names).await?;
    all.sort_by_key(|host| (host.namespace(), host.name_any()));
    if all.is_empty() && !global.quiet {
        say("no hosts");
    }
    let is_wide = global.output == Format::Wide;
    let text = match written(global.output, &mut all)? {
        Some(text) => text,
        None if all.is_empty() => String::new(),
        None => {
            let text = overview::hosts(&all, args.all_namespaces, is_wide);
            fitted(headed(text, global), global)
        }
    };
    result(&text)?;
    Ok(Exit::Done)
}

pub(super) async fn quota(global: &Global, args: &Overview) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let api: Api<TenantQuota> = Api::all(connection.client);
    let mut all = read(&api, &args.names).await?;
    if args.names.is_empty() && !args.all_namespaces {
        all.retain(|quota| quota.spec.namespaces.contains(&connection.namespace));
    }
    all.sort_by_key(|quota| quota.name_any());
    if all.is_empty() && !global.quiet {
        say(&format!("no quota bounds {}", connection.namespace));
    }
    let text = match written(global.output, &mut all)? {
        Some(text) => text,
        None if all.is_empty() => String::new(),
        None => fitted(headed(overview::quotas(&all), global), global),
    };
    result(&text)?;
    Ok(match all.iter().any(overview::is_exceeded) {
        true => Exit::Answered,
        false => Exit::Done,
    })
}

pub(super) async fn fleet(global: &Global, args: &Fleet) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let client = &connection.client;
    let api: Api<FleetPolicy> = Api::all(client.clone());
    let named: Vec<_> = args.name.iter().cloned().collect();
    let mut all = read(&api, &named).await?;
    // The first one is followed.
    all.sort_by_key(FleetPolicy::rank);
    if all.is_empty() && !global.quiet {
        say(
            "no FleetPolicy: tenant clusters follow the operator a few at a time, in no order (`config.maxConcurrentRollouts` of the chart)",
        );
    }
    let text = match written(global.output, &mut all)? {
        Some(text) => text,
        None => overview::fleet(&all, &waiting(client).await, Timestamp::now()),
    };
    result(&text)?;
    Ok(match all.iter().any(overview::is_halted) {
        true => Exit::Answered,
        false => Exit::Done,
    })
}

/// A table without its line of headings, where nobody wants it.
fn headed(text: String, global: &Global) -> String {
    match text.split_once('\n').filter(|_| global.no_headers) {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    }
}

/// All tenant clusters that can be read: who of them waits is seen in them.
async fn waiting(client: &Client) -> Vec<TenantCluster> {
    let reader = Reader::default();
    let clusters: Api<TenantCluster> = Api::all(client.clone());
    let what = "tenantclusters in all namespaces";
    let all = reader
        .list(&clusters, ListParams::default(), PAGES, what)
        .await;
    if let Known::Unknown { why } = &all {
        say(&format!("({what} are not known: {why})"));
    }
    all.there().unwrap_or_default()
}

/// All objects of a kind, or those that are named.
async fn read<K>(api: &Api<K>, names: &[String]) -> Result<Vec<K>, Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let plural = K::plural(&());
    let act = format!("get {plural}");
    if names.is_empty() {
        let all = request::all(api, ListParams::default(), PAGES).await;
        return all.map_err(|unread| Failure::unread(&act, &unread));
    }
    let mut all = Vec::new();
    for name in names {
        let one = api.get(name).await;
        all.push(one.map_err(|error| Failure::of(&act, &error))?);
    }
    Ok(all)
}

/// As JSON, as YAML or as names; none of what is for people.
fn written<K>(form: Format, all: &mut [K]) -> Result<Option<String>, Failure>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    match form {
        Format::Table | Format::Wide => Ok(None),
        Format::Name => {
            let resource = ApiResource::erase::<K>(&());
            let names = all
                .iter()
                .map(|one| name_of(&resource, &one.name_any()) + "\n");
            Ok(Some(names.collect()))
        }
        Format::Json | Format::Yaml => {
            for one in all.iter_mut() {
                one.meta_mut().managed_fields = None;
            }
            let items: Vec<Value> = all
                .iter()
                .map(|one| serde_json::to_value(one).unwrap_or_default())
                .collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
            structured(&list, form).map(Some)
        }
    }
}
