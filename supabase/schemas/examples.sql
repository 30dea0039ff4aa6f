-- Examples: corrections by people in documents of the same schema, which the agent is shown.

create index extractions_of_schema on public.extractions (org_id, md5(schema::jsonb::text), updated_at desc)
  where schema is not null and locks <> '{}';
