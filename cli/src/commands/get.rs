//! `covey get`: lists, as the API server makes tables of them.
//!
//! Invariant: columns are those of kubectl, because the server makes them.

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource as _};
use serde_json::{Value, json};

use crate::args::{Format, Get, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::kinds::name_of;
use crate::output::{result, say, structured};
use crate::table::aligned;
use insight_read::request::{self, Form, PAGE, PAGES, Unread};
use insight_read::table::ServerTable;

pub(super) async fn run(global: &Global, get: &Get) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let resource = get.kind.resource();
    let namespace = Some(connection.namespace.as_str());
    let namespace = namespace.filter(|_| get.kind.is_namespaced() && !get.all_namespaces);
    let path = DynamicObject::url_path(&resource, namespace);
    let act = format!("get {}", resource.plural);
    let asked = Asked {
        client: &connection.client,
        path,
        get,
        act,
    };
    match global.output {
        Format::Json | Format::Yaml => {
            let objects = asked.objects().await?;
            result(&structured(&listed(objects, get), global.output)?)?;
        }
        form => {
            let table = asked.table().await?;
            if table.rows.is_empty() && form != Format::Name {
                let place = namespace.map_or(String::new(), |n| format!(" in {n}"));
                if !global.quiet {
                    say(&format!("no {}{place}", resource.plural));
                }
                return Ok(Exit::Done);
            }
            result(&written(&table, &resource, get, form))?;
        }
    }
    Ok(Exit::Done)
}

fn written(table: &ServerTable, resource: &ApiResource, get: &Get, form: Format) -> String {
    if form == Format::Name {
        let names = table.rows.iter().map(|row| &row.object.metadata.name);
        return names.map(|name| name_of(resource, name) + "\n").collect();
    }
    let has_namespace = get.all_namespaces && get.kind.is_namespaced();
    let mut lines = table.shown(form == Format::Wide, has_namespace);
    if get.no_headers {
        lines.remove(0);
    }
    aligned(&lines)
}

/// One object as itself, several as a list; without what only the API server needs.
fn listed(mut objects: Vec<Value>, get: &Get) -> Value {
    for object in &mut objects {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    match (get.names.len(), objects.pop()) {
        (1, Some(one)) => one,
        (_, last) => {
            objects.extend(last);
            json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects})
        }
    }
}

struct Asked<'a> {
    client: &'a Client,
    path: String,
    get: &'a Get,
    act: String,
}

impl Asked<'_> {
    async fn table(&self) -> Result<ServerTable, Failure> {
        let failed = |error: &kube::Error| Failure::of(&self.act, error);
        let mut all = ServerTable::default();
        for name in &self.get.names {
            let one = request::get(self.client, &self.path, name, Form::Table).await;
            all.append(one.map_err(|error| failed(&error))?);
        }
        if !self.get.names.is_empty() {
            return Ok(all);
        }
        let mut params = self.params();
        for _ in 0..PAGES {
            let page = request::page(self.client, &self.path, &params, Form::Table).await;
            let page: ServerTable = page.map_err(|error| failed(&error))?;
            let next = page.metadata.next.clone().filter(|next| !next.is_empty());
            all.append(page);
            match next {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(all),
            }
        }
        Err(Failure::unread(&self.act, &Unread::TooMany))
    }

    async fn objects(&self) -> Result<Vec<Value>, Failure> {
        let failed = |error: &kube::Error| Failure::of(&self.act, error);
        let mut all = Vec::new();
        for name in &self.get.names {
            let one = request::get(self.client, &self.path, name, Form::Objects).await;
            all.push(one.map_err(|error| failed(&error))?);
        }
        if !self.get.names.is_empty() {
            return Ok(all);
        }
        let mut params = self.params();
        for _ in 0..PAGES {
            let page = request::page(self.client, &self.path, &params, Form::Objects).await;
            let mut page: Value = page.map_err(|error| failed(&error))?;
            let (version, kind) = (page["apiVersion"].clone(), page["kind"].clone());
            let kind = kind
                .as_str()
                .map(|kind| kind.trim_end_matches("List").to_owned());
            let next = page["metadata"]["continue"].as_str().map(str::to_owned);
            if let Value::Array(items) = page["items"].take() {
                // Items of a list do not say what they are.
                all.extend(items.into_iter().map(|mut item| {
                    item["apiVersion"] = version.clone();
                    item["kind"] = json!(kind);
                    item
                }));
            }
            match next.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(all),
            }
        }
        Err(Failure::unread(&self.act, &Unread::TooMany))
    }

    fn params(&self) -> ListParams {
        let params = ListParams::default().limit(PAGE);
        let params = match &self.get.selector {
            Some(selector) => params.labels(selector),
            None => params,
        };
        match &self.get.field_selector {
            Some(selector) => params.fields(selector),
            None => params,
        }
    }
}
