//! `covey get --watch`: what there is, and then each change, for as long as somebody reads it.
//!
//! Invariant: nothing is shown twice, and what was missed while a watch was made anew is shown by the list before it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use insight_read::request::{self, Form, PAGE, PAGES, Unread};
use insight_read::table::{Row, ServerTable};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{ApiResource, WatchEvent};
use serde_json::Value;
use tokio::time::sleep;

use crate::args::{Format, Global};
use crate::exit::{Exit, Failure};
use crate::kinds::name_of;
use crate::output::{part, say, structured, without_managers};
use crate::table::Widths;
use crate::terminal::fitted;

/// Between two tries, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What is followed.
pub(super) struct Followed<'a> {
    pub(super) client: &'a Client,
    pub(super) path: &'a str,
    /// One object alone.
    pub(super) name: Option<&'a str>,
    pub(super) labels: Option<&'a str>,
    pub(super) fields: Option<&'a str>,
    pub(super) act: &'a str,
    pub(super) resource: &'a ApiResource,
    pub(super) has_namespace: bool,
}

impl Followed<'_> {
    fn fields(&self) -> Option<String> {
        match self.name {
            Some(name) => Some(format!("metadata.name={name}")),
            None => self.fields.map(str::to_owned),
        }
    }

    fn list(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.map(str::to_owned),
            field_selector: self.fields(),
            ..ListParams::default().limit(PAGE)
        }
    }

    fn watch(&self) -> WatchParams {
        // A table has no bookmarks.
        WatchParams {
            label_selector: self.labels.map(str::to_owned),
            field_selector: self.fields(),
            ..WatchParams::default().disable_bookmarks()
        }
    }

    async fn table(&self) -> Result<ServerTable, Failure> {
        let (mut all, mut params) = (ServerTable::default(), self.list());
        for _ in 0..PAGES {
            let page = request::page(self.client, self.path, &params, Form::Table).await;
            let page: ServerTable = page.map_err(|error| Failure::of(self.act, &error))?;
            let next = page.metadata.next.clone().filter(|next| !next.is_empty());
            all.append(page);
            match next {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(all),
            }
        }
        Err(Failure::unread(self.act, &Unread::TooMany))
    }
}

/// Writes what is shown, and knows what was.
struct Shown<'a> {
    global: &'a Global,
    followed: &'a Followed<'a>,
    /// Columns and their widths, from the first list.
    columns: Option<(ServerTable, Widths)>,
    /// Versions of what was shown, by namespace and name.
    told: BTreeMap<(String, String), String>,
}

impl Shown<'_> {
    /// Shows a list: of the first one all, of later ones what is new in it. False: nobody reads on.
    async fn list(&mut self, table: ServerTable) -> Result<bool, Failure> {
        let is_first = self.columns.is_none();
        if is_first {
            let lines = self.lines(&table);
            let columns = ServerTable {
                rows: Vec::new(),
                ..table.clone()
            };
            self.columns = Some((columns, Widths::of(&lines)));
            let has_heads = !self.global.no_headers && !self.is_structured();
            let heads = lines.into_iter().take(1).filter(|_| has_heads);
            let heads: Vec<_> = heads.collect();
            if self.global.output != Format::Name && !self.write_lines(&heads)? {
                return Ok(false);
            }
        }
        let there: Vec<_> = table.rows.iter().map(key).collect();
        let gone = self.told.keys().filter(|key| !there.contains(key));
        let gone: Vec<_> = gone.cloned().collect();
        for key in gone {
            self.gone(&key);
        }
        for row in table.rows {
            if !self.row(row).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_structured(&self) -> bool {
        matches!(self.global.output, Format::Json | Format::Yaml)
    }

    fn lines(&self, table: &ServerTable) -> Vec<Vec<String>> {
        let is_wide = self.global.output == Format::Wide;
        table.shown(is_wide, self.followed.has_namespace)
    }

    fn write_lines(&self, lines: &[Vec<String>]) -> Result<bool, Failure> {
        let Some((_, widths)) = &self.columns else {
            return Ok(true);
        };
        part(&fitted(widths.aligned(lines), self.global))
    }

    /// Shows a row, unless it was shown. False: nobody reads on.
    async fn row(&mut self, row: Row) -> Result<bool, Failure> {
        let (key, version) = (key(&row), row.object.metadata.version.clone());
        if self.told.get(&key) == Some(&version) {
            return Ok(true);
        }
        self.told.insert(key.clone(), version);
        if self.global.output == Format::Name {
            return part(&(name_of(self.followed.resource, &key.1) + "\n"));
        }
        if self.is_structured() {
            return self.object(&key).await;
        }
        let Some((columns, _)) = &self.columns else {
            return Ok(true);
        };
        let mut table = columns.clone();
        table.rows = vec![row];
        self.write_lines(&self.lines(&table)[1..])
    }

    /// Shows the object of a row as it is by now. One that is gone meanwhile is told by the watch.
    async fn object(&self, (namespace, name): &(String, String)) -> Result<bool, Failure> {
        let Followed {
            client, resource, ..
        } = self.followed;
        let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let path = <kube::api::DynamicObject as kube::Resource>::url_path(resource, namespace);
        let mut object: Value = match request::get(client, &path, name, Form::Objects).await {
            Ok(object) => object,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(true),
            Err(error) => return Err(Failure::of(self.followed.act, &error)),
        };
        without_managers(&mut object);
        let text = structured(&object, self.global.output)?;
        match self.global.output {
            Format::Yaml => part(&format!("---\n{text}")),
            _ => part(&text),
        }
    }

    fn gone(&mut self, key: &(String, String)) {
        self.told.remove(key);
        if !self.global.quiet {
            say(&format!(
                "{} was deleted",
                name_of(self.followed.resource, &key.1)
            ));
        }
    }
}

fn key(row: &Row) -> (String, String) {
    let names = &row.object.metadata;
    (
        names.namespace.clone().unwrap_or_default(),
        names.name.clone(),
    )
}

/// Follows it until nobody reads on, or the API does not let the user.
pub(super) async fn follow(global: &Global, followed: &Followed<'_>) -> Result<Exit, Failure> {
    let mut shown = Shown {
        global,
        followed,
        columns: None,
        told: BTreeMap::new(),
    };
    let mut pause = PAUSES.0;
    loop {
        match turn(followed, &mut shown).await {
            Ok(Some(exit)) => return Ok(exit),
            Ok(None) => pause = PAUSES.0,
            // Somebody who waits wants to know what is wrong with the question; what is wrong with the API may pass.
            Err(failure) if shown.columns.is_none() || is_final(&failure) => return Err(failure),
            Err(failure) => {
                if !global.quiet {
                    say(&format!("({})", failure.what));
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

fn is_final(failure: &Failure) -> bool {
    failure.exit != Exit::Failed
}

/// A list, and what changes until the API ends the watch. Some: it is over.
async fn turn(followed: &Followed<'_>, shown: &mut Shown<'_>) -> Result<Option<Exit>, Failure> {
    let table = followed.table().await?;
    if let (Some(name), true) = (followed.name, table.rows.is_empty())
        && shown.columns.is_none()
    {
        let what = format!("no {} {name}", followed.resource.kind);
        let mend = "`covey get` lists what is there; other namespaces: `-n NAMESPACE` or `-A`";
        return Err(Failure::new(Exit::NotFound, &what, mend));
    }
    let version = table.metadata.version.clone();
    if !shown.list(table).await? {
        return Ok(Some(Exit::Done));
    }
    let failed = |error: &kube::Error| Failure::of(followed.act, error);
    let (client, path, params) = (followed.client, followed.path, followed.watch());
    let events = request::watch::<ServerTable>(client, path, &params, &version, Form::Table).await;
    let events = events.map_err(|error| failed(&error))?;
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let (table, is_gone) = match event {
            Ok(WatchEvent::Added(table) | WatchEvent::Modified(table)) => (table, false),
            Ok(WatchEvent::Deleted(table)) => (table, true),
            Ok(WatchEvent::Bookmark(_)) => continue,
            // Its versions are too old: the next list has new ones.
            Ok(WatchEvent::Error(_)) => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        for row in table.rows {
            if is_gone {
                shown.gone(&key(&row));
            } else if !shown.row(row).await? {
                return Ok(Some(Exit::Done));
            }
        }
    }
    Ok(None)
}
