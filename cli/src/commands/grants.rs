//! `covey kubeconfig list` and `revoke`: who was let into tenant clusters, and the end of that.
//!
//! Invariant: rights end with the grant; what is kept of it here goes too, so that nobody shows it in vain.

use api::AccessGrant;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use kube::core::ApiResource;

use super::get;
use crate::args::Global;
use crate::args::access::{Grants, List, Revoke};
use crate::args::read::Get;
use crate::connect::{Connection, connect};
use crate::credential_cache::Cache;
use crate::exit::{Exit, Failure};
use crate::kinds::{Kind, name_of};
use crate::output::{result, say};
use insight_read::request::{self, PAGES};

/// Either.
pub(super) async fn run(global: &Global, grants: &Grants) -> Result<Exit, Failure> {
    match grants {
        Grants::List(list) => self::list(global, list).await,
        Grants::Revoke(revoke) => self::revoke(global, revoke).await,
    }
}

async fn list(global: &Global, list: &List) -> Result<Exit, Failure> {
    let all = Get {
        kind: Kind::Grants,
        names: Vec::new(),
        all_namespaces: list.all_namespaces,
        selector: None,
        field_selector: None,
        cluster: list.name.clone(),
        sort_by: None,
        watch: false,
    };
    get::run(global, &all).await
}

async fn revoke(global: &Global, args: &Revoke) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let namespace = &connection.namespace;
    let grants: Api<AccessGrant> = Api::namespaced(connection.client.clone(), namespace);
    let names = named(&connection, &grants, args).await?;
    let (resource, mut ended) = (ApiResource::erase::<AccessGrant>(&()), String::new());
    for name in &names {
        let act = format!("revoke the AccessGrant {name} in {namespace}");
        let deleted = grants.delete(name, &DeleteParams::default()).await;
        deleted.map_err(|error| Failure::of(&act, &error))?;
        ended.push_str(&(name_of(&resource, name) + "\n"));
    }
    if let Ok(cache) = Cache::of_user() {
        cache.forget(namespace, &names);
    }
    result(&ended)?;
    if !global.quiet {
        match names.is_empty() {
            true => say(&format!("no accessgrants in {namespace} that are to end")),
            false => say(
                "their rights end now; a group that was asked for by `--group` lasts until the certificate ends",
            ),
        }
    }
    Ok(Exit::Done)
}

async fn named(
    connection: &Connection,
    grants: &Api<AccessGrant>,
    args: &Revoke,
) -> Result<Vec<String>, Failure> {
    if !args.names.is_empty() {
        return Ok(args.names.clone());
    }
    let act = format!("list accessgrants in {}", connection.namespace);
    let all = request::all(grants, ListParams::default(), PAGES).await;
    let all = all.map_err(|unread| Failure::unread(&act, &unread))?;
    let is_meant = |grant: &&AccessGrant| match &args.user {
        Some(user) => grant.spec.user == *user,
        None => args.all,
    };
    let names = all.iter().filter(is_meant).map(|grant| grant.name_any());
    Ok(names.collect())
}
