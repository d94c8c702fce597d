//! Reasons of backups and of what is brought back from them.
//!
//! Invariant: that of the catalogue.

/// Makes the catalogue of what it is given, of these, and of what is refused.
macro_rules! with_backups {
    ($($others:tt)*) => { $crate::reason::catalogue::refusals::with_refusals! {
    $($others)*
    "Of the backup of a TenantCluster" {
        /// All changes are in the target, or on their way there for less time than was asked for.
        BackedUp: Fine, "", since "0.2.0";
        /// It has begun, and nothing was found whole in the target yet.
        BackupStarting: Waiting, "If it takes minutes: `kubectl logs deployment/backup` in the tenant namespace.", since "0.2.0";
        /// Changes wait for more than twice the time that was asked for; the message says why, where that is known.
        /// Cause: The target does not answer or is full, credentials have ended, or etcd's only member that is asked is down.
        BackupLate: Person, "Mend what the message names; `kubectl logs deployment/backup` in the tenant namespace has all of it.", since "0.2.0";
        /// Its process does not say how far it is.
        /// Cause: Its pod does not run, for a lack of room or of an image; else a NetworkPolicy stands between it and the operator.
        BackupSilent: Person, "Look at it with `kubectl describe deployment backup` in the tenant namespace.", since "0.2.0";
        /// There is no BackupTarget of the name in `spec.backup.target`.
        /// Cause: A typing error; else it was deleted, or is made later.
        TargetMissing: Person, "Make it, or name another one: `kubectl get backuptargets`.", since "0.2.0";
        /// A Secret that the BackupTarget names is missing or not what it should be.
        /// Cause: It was made in another namespace than the operator's, or a field has another name.
        TargetSecretUnusable: Person, "Mend the Secret that `spec` of the BackupTarget names, in the operator's namespace; the message says which.", since "0.2.0";
        /// What is in the target was restored beside the tenant cluster, and is not what its etcd has; the message names the first key.
        /// Cause: etcd was changed by something that its backup was not told of, such as a volume that was set back; or a mistake of ours.
        BackupDiffers: Person, "Have a full snapshot taken, with which it is tested anew: `kubectl create` a Snapshot of the TenantCluster; report the message.", since "0.2.0";
        /// A restore of what is in the target was tested beside the tenant cluster, and came to no end: nobody knows whether it can be had.
        /// Cause: No node has room for it, an image cannot be pulled, the target does not answer, or the database takes longer than an hour.
        RestoreTestFailed: Person, "Mend what the message says; it is tried again after six hours, and at once after a new full snapshot: `kubectl create` a Snapshot. `spec.backup.restoreTest: 0s` switches tests off.", since "0.2.0";
    }
    "Of a Snapshot" {
        /// It is in the backup.
        SnapshotTaken: Fine, "", since "0.2.0";
        /// It was asked for and is not in the backup yet.
        TakingSnapshot: Waiting, "If it takes minutes: look at the condition `BackupReady` of the TenantCluster.", since "0.2.0";
        /// There is no TenantCluster of the name in `spec.clusterName` in this namespace.
        /// Cause: A typing error; else it was deleted, or is made later.
        SnapshotWithoutCluster: Person, "Make it, or make another Snapshot whose `spec.clusterName` is right.", since "0.2.0";
        /// The TenantCluster has no backup, and a snapshot is a part of one.
        /// Cause: `spec.backup` is not set.
        SnapshotWithoutBackup: Person, "Set `spec.backup` of the TenantCluster: `kubectl get backuptargets` says which targets there are.", since "0.2.0";
        /// The process that backs the tenant cluster up does not answer, so nothing can be asked of it.
        /// Cause: It starts, or its pod does not run; the condition `BackupReady` of the TenantCluster says more.
        SnapshotUnanswered: Waiting, "If it takes minutes: look at the condition `BackupReady` of the TenantCluster.", since "0.2.0";
        /// It was in the backup and is not any more.
        /// Cause: Retention let it go, somebody deleted it, or the TenantCluster or its etcd is another one by now.
        SnapshotGone: Person, "Delete the Snapshot; set `spec.keepUntil` of the next one where it is to stay longer.", since "0.2.0";
        /// It was read again in the backup, with all deltas after it, and was whole.
        SnapshotWhole: Fine, "", since "0.2.0";
        /// It was not read again yet, or a newer one came before and was read instead.
        NotReadAgain: Waiting, "Only the newest full snapshot is read again; `etcd-agent backup verify` reads all.", since "0.2.0";
    }
    "Of a Restore" {
        /// The snapshot and all changes up to the moment were read again, and were whole.
        RestorePossible: Fine, "", since "0.2.0";
        /// What was asked for cannot be had; the message says what is wrong, and the nearest moment that can.
        /// Cause: Objects of the backup are damaged or missing, or retention let them go.
        RestoreImpossible: Person, "Make another Restore with the moment in `status.time`, or another in `spec.at`.", since "0.2.0";
        /// The tenant cluster of then may not become this TenantCluster; the message says why. It is looked at again.
        /// Cause: The tenant cluster of then is still there, this one has other address ranges or another version, or the recovery key is not there.
        RestoreRefused: Person, "Mend what the message names: `spec.network` or `spec.version` of a TenantCluster that is made anew, `spec.encryption.recoverySecret` of the BackupTarget, or a KMS of then in `config.encryption.kms`.", since "0.2.0";
        /// The process that backs the tenant cluster up reads its target.
        ReadingBackup: Waiting, "It takes as long as the database needs to be read.", since "0.2.0";
        /// The process that backs the tenant cluster up does not answer, or its target does not.
        /// Cause: Its pod does not run, or others are read at the same time; the condition `BackupReady` says more.
        RestoreUnanswered: Waiting, "If it takes minutes: look at the condition `BackupReady` of the TenantCluster.", since "0.2.0";
        /// The tenant cluster serves what it was at that moment.
        Restored: Fine, "Set `spec.confirmed` once it is what you wanted: until then what was there before takes room on etcd's volumes.", since "0.2.0";
        /// The tenant cluster is brought back to a moment of its backup, and does not answer meanwhile; the message says how far it is.
        Restoring: Waiting, "If it takes minutes: `kubectl get jobs,pods -l app.kubernetes.io/component=etcd-restore` in the tenant namespace.", since "0.2.0";
        /// Another Restore of the tenant cluster goes ahead, which the message names; or it is about to begin.
        RestoreWaiting: Waiting, "Wait for the one that is named; where it is over, set its `spec.confirmed` or delete it.", since "0.2.0";
        /// It could not be carried out, and the tenant cluster serves the data that it had before; the message says why.
        /// Cause: A volume has no room for a second copy, an object of the backup cannot be read any more, or a pod did not end.
        RestoreGivenUp: Person, "Mend what the message names (for a lack of room: a larger `spec.etcd.storage.size`), and make another Restore.", since "0.2.0";
        /// The tenant cluster knows a Service for every load balancer that there is, or a PersistentVolume for every volume and a VolumeSnapshotContent for every snapshot.
        NoOrphans: Fine, "", since "0.2.0";
        /// The cloud controller manager has not said of each load balancer yet whether the tenant cluster knows a Service for it; all are kept.
        LookingForOrphans: Waiting, "If it takes minutes: `kubectl logs deployment/ccm` in the tenant namespace.", since "0.2.0";
        /// There are load balancers that the tenant cluster of then does not know; `status.orphans` names them. They are kept, and the Restore does not end before it is decided.
        /// Cause: Their Services were made after the moment.
        OrphansFound: Person, "Set `spec.orphans` to `Keep` or `Delete`.", since "0.2.0";
        /// There are load balancers that the tenant cluster of then does not know, and they are to stay; `status.orphans` names them.
        OrphansKept: Fine, "Delete one with `kubectl delete service` in the tenant namespace once nobody needs its address.", since "0.2.0";
        /// Load balancers that the tenant cluster of then does not know go once the Restore is confirmed, or went.
        OrphansDeleted: Fine, "", since "0.2.0";
        /// Nobody can say whether the tenant cluster knows a Service for each load balancer that there is, because no cloud controller manager runs for it; all are kept, and the Restore ends without it.
        /// Cause: `spec.addons.cloudController` of the TenantCluster is off, or was switched off.
        OrphansUnknown: Person, "Look at the Services with the annotation `covey.dev/kept-for-restore` in the tenant namespace, and delete those that nobody needs.", since "0.2.0";
        /// It is not known of volumes and snapshots in the tenant namespace whether anything in the tenant cluster names them; all are kept.
        LookingForVolumes: Waiting, "If it takes minutes: do what the message says, or delete the Restore, which keeps all volumes and snapshots.", since "0.2.0";
        /// There are volumes or snapshots that the tenant cluster of then does not know; `status.orphans` names their claims and VolumeSnapshots. They are kept, and the Restore does not end before it is decided.
        /// Cause: Their PersistentVolumes or VolumeSnapshotContents were made after the moment.
        VolumesFound: Person, "Set `spec.orphans` to `Keep` or `Delete`.", since "0.2.0";
        /// There are volumes or snapshots that the tenant cluster of then does not know, and they are to stay, or are in use: attached to a machine, or a volume is being made of one; `status.orphans` names them.
        VolumesKept: Fine, "Delete one with `kubectl delete pvc` or `kubectl delete volumesnapshot` in the tenant namespace once nobody needs what is on it.", since "0.2.0";
        /// Volumes and snapshots that the tenant cluster of then does not know, and that are not in use, go once the Restore is confirmed, or are going.
        VolumesDeleted: Fine, "", since "0.2.0";
        /// PersistentVolumes of the tenant cluster of then have no volume behind them any more, or VolumeSnapshotContents no snapshot; `status.missing` of the Restore names them. Nothing is made in their place.
        /// Cause: They were deleted after the moment, or lost.
        VolumesMissing: Person, "Delete these PersistentVolumes (`kubectl delete pv`) and their claims, and the VolumeSnapshots, in the tenant cluster, and have their owners fill new ones.", since "0.2.0";
        /// There is no TenantCluster of the name in `spec.clusterName` beside the Restore.
        /// Cause: A typing error; else it was deleted, and its backup is read with `etcd-agent backup restore`.
        RestoreWithoutCluster: Person, "Make it, or make another Restore whose `spec.clusterName` is right.", since "0.2.0";
        /// Nothing reads the backup of this TenantCluster.
        /// Cause: `spec.backup` is not set, or was taken away.
        RestoreWithoutBackup: Person, "Set `spec.backup` of the TenantCluster.", since "0.2.0";
    }
    "Of a BackupTarget" {
        /// Everything that a backup asks of it was asked, and answered as it should be.
        TargetAnswers: Fine, "", since "0.2.0";
        /// It is being asked; what it answered before is not known, or was of another spec.
        CheckingTarget: Waiting, "If it takes minutes: look at the Job `backup-check-…` in the operator's namespace.", since "0.2.0";
        /// A call that a backup needs failed there; the message names it and why.
        /// Cause: Wrong or expired credentials, a bucket that is not there, a certificate that nobody trusts, or a server without conditional puts.
        TargetUnusable: Person, "Mend what the message names, in `spec` or in the Secret that it names; it is checked again within five minutes.", since "0.2.0";
        /// The check did not come to its end, so nothing is known of the target; the message says what its pod waits for.
        /// Cause: The image cannot be pulled, a claim of the StorageClass is not bound, or no node has room.
        CheckNotRun: Person, "Look at it with `kubectl describe pods -l covey.dev/backup-target` in the operator's namespace.", since "0.2.0";
    }
    } };
}
pub(super) use with_backups;
