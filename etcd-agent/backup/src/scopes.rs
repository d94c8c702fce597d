//! Whose backups are in a store, for who knows nothing but the store.
//!
//! Invariant: what is below a scope is passed over and not listed, so this costs a call or two for each; what is no
//! scope's is passed over, too.

use backup_format::{IdentityName, Name, Scope};

use crate::store::{Store, StoreError};

/// Most scopes that are told.
const MOST: usize = 100_000;

/// Every scope of a store, sorted. `prefix` is empty, or has a slash at its end.
///
/// # Errors
/// [`StoreError`].
pub async fn scopes<S: Store>(store: &S, prefix: &str) -> Result<Vec<Scope>, StoreError> {
    let (mut found, mut after) = (Vec::<Scope>::new(), None::<String>);
    while found.len() < MOST {
        let page = store.list(prefix, after.as_deref()).await?;
        let of = |key: &str| scope(key.strip_prefix(prefix)?);
        for scope in page.objects.iter().filter_map(|entry| of(&entry.key)) {
            if found.last() != Some(&scope) {
                found.push(scope);
            }
        }
        let Some(last) = page.objects.last().map(|entry| entry.key.clone()) else {
            break;
        };
        let next = match of(&last) {
            // The character after a slash: behind everything in that folder, and before the next one.
            Some(scope) => format!("{prefix}{}0", scope.folder().trim_end_matches('/')),
            None => last,
        };
        // A store that says "more" and gives the same again would be asked for ever.
        if !page.more || after.as_ref().is_some_and(|after| next <= *after) {
            break;
        }
        after = Some(next);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Identities of a scope, the oldest first, without the rest of it.
///
/// # Errors
/// [`StoreError`].
pub async fn identities<S: Store>(
    store: &S,
    prefix: &str,
    scope: &Scope,
) -> Result<Vec<IdentityName>, StoreError> {
    let folder = format!("{prefix}{}", scope.folder());
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = store
            .list(&format!("{folder}identity/"), after.as_deref())
            .await?;
        let name = |key: &str| match key.strip_prefix(&folder)?.parse() {
            Ok(Name::Identity(name)) => Some(name),
            _ => None,
        };
        found.extend(page.objects.iter().filter_map(|entry| name(&entry.key)));
        let last = page.objects.last().map(|entry| entry.key.clone());
        match (page.more, last) {
            (true, Some(last)) if after.as_ref().is_none_or(|after| last > *after) => {
                after = Some(last);
            }
            _ => break,
        }
    }
    found.sort();
    Ok(found)
}

/// Whose an object is, by its key without the prefix.
fn scope(key: &str) -> Option<Scope> {
    let (tenant, rest) = key.split_once('/')?;
    let (cluster, _) = rest.split_once('/')?;
    let number = u64::from_str_radix(cluster, 16).ok()?;
    let scope = Scope::new(tenant, number)?;
    key.starts_with(&scope.folder()).then_some(scope)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use backup_format::Digest;
    use bytes::Bytes;

    use super::*;
    use crate::store::{Created, Entry, Page};

    /// Keys, two to a page, and how often it was asked.
    #[derive(Default)]
    struct Listed(BTreeSet<String>, Mutex<usize>);

    impl Store for Listed {
        async fn create(&self, _: &str, _: Bytes) -> Result<Created, StoreError> {
            panic!("nothing is written")
        }

        async fn get(&self, _: &str, _: usize) -> Result<Bytes, StoreError> {
            panic!("nothing is read")
        }

        async fn list(&self, folder: &str, after: Option<&str>) -> Result<Page, StoreError> {
            *self.1.lock().unwrap() += 1;
            let is_next = |key: &&String| {
                key.starts_with(folder) && after.is_none_or(|after| key.as_str() > after)
            };
            let entry = |key: &String| Entry {
                key: key.clone(),
                bytes: 1,
            };
            let objects: Vec<_> = self.0.iter().filter(is_next).take(2).map(entry).collect();
            Ok(Page {
                more: objects.len() == 2,
                objects,
            })
        }

        async fn delete(&self, _: &str) -> Result<(), StoreError> {
            panic!("nothing is deleted")
        }
    }

    #[tokio::test]
    async fn every_scope_is_told_and_what_is_in_one_is_not_listed() {
        let scopes_of = |text: &[(&str, u64)]| -> Vec<Scope> {
            let all = text.iter();
            all.map(|(tenant, cluster)| Scope::new(tenant, *cluster).unwrap())
                .collect()
        };
        let wanted = scopes_of(&[("a", 1), ("a", 2), ("a-b", 7), ("b", u64::MAX)]);
        let mut store = Listed::default();
        for scope in &wanted {
            for number in 0..500 {
                let name = Name::Delta(number);
                store.0.insert(format!("p/{}{name}", scope.folder()));
            }
        }
        for other in [
            "p/covey-check/x",
            "p/a/none/x",
            "p/a/1/x",
            "p/z",
            "q/a/0000000000000003/x",
        ] {
            store.0.insert(other.to_owned());
        }
        assert_eq!(scopes(&store, "p/").await.unwrap(), wanted);
        let calls = *store.1.lock().unwrap();
        assert!(calls <= 2 * wanted.len() + 5, "{calls}");
        assert_eq!(scopes(&store, "r/").await.unwrap(), []);
    }

    #[tokio::test]
    async fn identities_of_a_scope_are_told_without_the_rest() {
        let scope = Scope::new("a", 1).unwrap();
        let mut store = Listed::default();
        let name = |sealed_ms: u64| IdentityName {
            sealed_ms,
            digest: Digest::of(&sealed_ms.to_le_bytes()),
        };
        let wanted: Vec<_> = [3, 5, 10, 11, 70].map(name).to_vec();
        let key = |name: Name| format!("{}{name}", scope.folder());
        store
            .0
            .extend(wanted.iter().map(|name| key(Name::Identity(*name))));
        store
            .0
            .extend((0..100).map(|number| key(Name::Delta(number))));
        store.0.insert(format!("{}identity/x", scope.folder()));
        assert_eq!(identities(&store, "", &scope).await.unwrap(), wanted);
        assert!(*store.1.lock().unwrap() <= 4);
    }
}
