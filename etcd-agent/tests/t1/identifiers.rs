//! Whose data it is: what the gate reads is what etcd answers, and nobody gets another's.

use anyhow::Result;
use serde_json::json;

use super::support::{Cluster, Site, gate, listing, marker, new_cluster, running_cluster};

#[tokio::test]
async fn a_member_is_known_by_the_identifiers_that_etcd_itself_answers() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volume = site.volume("one");
    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(0, "Start");
    let begun = json!({"claimUID": "claim-0", "name": "etcd-0"});
    assert_eq!(marker(&volume), begun);

    let cluster = Cluster::new("one", 1)?;
    let mut members = site.start(&[&volume], &cluster, &[]).await?;
    let member = members.remove(0);
    let (cluster, id) = site.ids(&member)?;
    member.kill();

    // The operator has not looked yet; then it has.
    let before = listing(&volume.join("data"));
    for identity in [new_cluster(1), running_cluster(cluster, &[id])] {
        let answer = gate(&volume, "etcd-0", "new", &identity);
        answer.is(0, "Start");
        let named = format!("cluster {cluster:x}, member {id:x}");
        assert!(answer.line.ends_with(&named), "{answer:?} {named}");
        let data = json!({"clusterID": format!("{cluster:x}"), "memberID": format!("{id:x}")});
        assert_eq!(marker(&volume)["data"], data);
    }
    assert_eq!(listing(&volume.join("data")), before);
    Ok(())
}

#[tokio::test]
async fn swapped_volumes_of_three_members_are_refused_each_by_its_owners_name() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volumes = ["a", "b", "c"].map(|name| site.volume(name));
    let name = |number: usize| format!("etcd-{number}");
    for (number, volume) in volumes.iter().enumerate() {
        gate(volume, &name(number), "new", &new_cluster(3)).is(0, "Start");
    }
    let cluster = Cluster::new("three", 3)?;
    let all = volumes.each_ref().map(|volume| volume.as_path());
    let members = site.start(&all, &cluster, &[]).await?;
    let list = site.member_list(&members[0])?;
    let (cluster, _) = site.ids(&members[0])?;
    for (number, member) in members.into_iter().enumerate() {
        assert_eq!(site.ids(&member)?, (cluster, list[&name(number)]));
        member.kill();
    }
    let ids: Vec<_> = (0..3).map(|number| list[&name(number)]).collect();
    let identity = running_cluster(cluster, &ids);
    for (held, volume) in volumes.iter().enumerate() {
        for wanted in 0..3 {
            let answer = gate(volume, &name(wanted), "existing", &identity);
            if held == wanted {
                answer.is(0, "Start");
                assert!(answer.line.ends_with(&format!("member {:x}", ids[held])));
            } else {
                answer.is(12, "OtherMember");
                assert!(answer.line.contains(&format!("data of {}", name(held))));
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn data_of_another_cluster_and_of_another_claim_is_refused() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let (ours, theirs) = (site.volume("ours"), site.volume("theirs"));
    let mut found = Vec::new();
    for (volume, token) in [(&ours, "ours"), (&theirs, "theirs")] {
        let cluster = Cluster::new(token, 1)?;
        let member = site.start(&[volume], &cluster, &[]).await?.remove(0);
        found.push(site.ids(&member)?);
        member.kill();
    }
    let [(cluster, id), (other, _)] = found[..] else {
        panic!("two clusters ran");
    };
    assert_ne!(cluster, other);
    let identity = running_cluster(cluster, &[id]);
    let before = listing(&theirs);
    let answer = gate(&theirs, "etcd-0", "existing", &identity);
    answer.is(11, "ForeignData");
    let names_both = |line: &str| {
        [cluster, other]
            .iter()
            .all(|c| line.contains(&format!("{c:x}")))
    };
    assert!(names_both(&answer.line), "{answer:?}");
    // A tenant cluster that never ran finds what somebody else left behind.
    gate(&theirs, "etcd-0", "new", &new_cluster(1)).is(11, "ForeignData");
    assert_eq!(listing(&theirs), before);

    // Its own data is adopted once, and then belongs to the claim.
    gate(&ours, "etcd-0", "existing", &identity).is(0, "Start");
    let mut moved = identity;
    moved["members"][0]["claimUID"] = "claim-later".into();
    let answer = gate(&ours, "etcd-0", "existing", &moved);
    answer.is(13, "OtherClaim");
    assert!(answer.line.contains("claim-0") && answer.line.contains("claim-later"));
    assert_eq!(marker(&ours)["claimUID"], "claim-0");
    Ok(())
}
