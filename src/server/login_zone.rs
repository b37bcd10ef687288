//! The time zone in which a login of somebody's database is, unless it says otherwise. A session of
//! ours does say otherwise, so it is looked up where it is set.

use sqlx::PgConnection;

/// By role and database, or the file of the server; `UTC` where neither can be read.
pub(crate) async fn of(connection: &mut PgConnection) -> sqlx::Result<String> {
    let set: Option<String> = sqlx::query_scalar(
        "-- login_zone
         select split_part(entry, '=', 2)
         from pg_db_role_setting s
         cross join unnest(s.setconfig) as entry
         where lower(split_part(entry, '=', 1)) = 'timezone'
             and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
             and s.setrole in (0, (select oid from pg_roles where rolname = current_user))
         order by s.setrole <> 0 desc, s.setdatabase <> 0 desc
         limit 1",
    )
    .fetch_optional(&mut *connection)
    .await?;
    let zone = match set {
        Some(zone) => Some(zone),
        // Not everybody may read it.
        None => sqlx::query_scalar(
            "-- server_zone
             select setting
             from pg_file_settings
             where lower(name) = 'timezone' and error is null
             order by seqno desc
             limit 1",
        )
        .fetch_optional(connection)
        .await
        .unwrap_or_default(),
    };
    Ok(match zone.as_deref() {
        None | Some("" | "GMT" | "Etc/UTC") => "UTC".to_owned(),
        Some(zone) => zone.to_owned(),
    })
}
