//! Names of objects, for what completes a line.
//!
//! Invariant: they are there soon, or not at all, and whatever keeps them is said to nobody: a line is being written.

use std::time::Duration;

use clap::Parser as _;
use insight_read::request::{self, Form, PAGE};
use insight_read::table::ServerTable;
use kube::Resource as _;
use kube::api::{DynamicObject, ListParams};
use tokio::time::timeout;

use crate::args::{Args, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::kinds::Kind;

/// How long somebody who writes a line waits for it.
const SOON: Duration = Duration::from_millis(300);

/// Names of a kind's objects, by these flags.
pub(crate) fn names(kind: Kind, flags: &[String]) -> Vec<String> {
    let words = ["covey", "version"].map(str::to_owned).into_iter();
    let Ok(args) = Args::try_parse_from(words.chain(flags.iter().cloned())) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let asked = async {
        if let Ok(Ok(names)) = timeout(SOON, listed(&args.global, kind)).await {
            found = names;
        }
        Ok(Exit::Done)
    };
    match super::stay(asked) {
        Ok(_) => found,
        Err(_) => Vec::new(),
    }
}

async fn listed(global: &Global, kind: Kind) -> Result<Vec<String>, Failure> {
    let connection = connect(global).await?;
    let resource = kind.resource();
    let namespace = Some(connection.namespace.as_str()).filter(|_| kind.is_namespaced());
    let path = DynamicObject::url_path(&resource, namespace);
    let params = ListParams::default().limit(PAGE);
    let table = request::page(&connection.client, &path, &params, Form::Table).await;
    let table: ServerTable = table.map_err(|error| Failure::of("list names", &error))?;
    let rows = table.rows.into_iter();
    let names = rows.map(|row| insight::text::shown(&row.object.metadata.name));
    Ok(names.collect())
}
