// Written by `just types`.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[]

export type Database = {

  "public": {
          Tables: {
            "agent_sessions": {
                  Row: {
                    "created_at": string,"created_by": string | null,"entry": NonNullable<Json>,"number": number,"org_id": string,"session_id": string,"subpath": string,"uuid": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"entry": NonNullable<Json>,"number"?: never,"org_id": string,"session_id": string,"subpath"?: string,"uuid"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"entry"?: NonNullable<Json>,"number"?: never,"org_id"?: string,"session_id"?: string,"subpath"?: string,"uuid"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "agent_sessions_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"api_keys": {
                  Row: {
                    "created_at": string,"created_by": string,"expires_at": string | null,"hash": string,"id": string,"last_used_at": string | null,"name": string,"org_id": string,"prefix": string,"revoked_at": string | null,"revoked_by": string | null,"scopes": (string)[]
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by": string,"expires_at"?: string | null,"hash": string,"id"?: string,"last_used_at"?: string | null,"name": string,"org_id": string,"prefix": string,"revoked_at"?: string | null,"revoked_by"?: string | null,"scopes": (string)[]
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string,"expires_at"?: string | null,"hash"?: string,"id"?: string,"last_used_at"?: string | null,"name"?: string,"org_id"?: string,"prefix"?: string,"revoked_at"?: string | null,"revoked_by"?: string | null,"scopes"?: (string)[]
                  }
                  Relationships: [
                    {
      foreignKeyName: "api_keys_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"audits": {
                  Row: {
                    "checked_at": string | null,"checked_by": string | null,"confidence": number,"created_at": string,"draw": number,"extraction_id": string,"id": string,"is_accepted": boolean,"model": string,"org_id": string,"outcome": string | null,"path": string | null,"schema_revid": string
                  }
                  ComputedFields: never
                  Insert: {
                    "checked_at"?: string | null,"checked_by"?: string | null,"confidence": number,"created_at"?: string,"draw": number,"extraction_id": string,"id"?: string,"is_accepted": boolean,"model": string,"org_id": string,"outcome"?: string | null,"path"?: string | null,"schema_revid": string
                  }
                  Update: {
                    "checked_at"?: string | null,"checked_by"?: string | null,"confidence"?: number,"created_at"?: string,"draw"?: number,"extraction_id"?: string,"id"?: string,"is_accepted"?: boolean,"model"?: string,"org_id"?: string,"outcome"?: string | null,"path"?: string | null,"schema_revid"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "audits_extraction_id_org_id_fkey"
      columns: ["extraction_id","org_id"]
isOneToOne: false
      referencedRelation: "extractions"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"auto_creations": {
                  Row: {
                    "created_at": string,"created_by": string | null,"decided_at": string | null,"decided_by": string | null,"document_id": string,"error": string | null,"extraction_id": string | null,"kind": string | null,"labels": (string)[],"matched": Json | null,"org_id": string,"prompt_revid": string | null,"run_id": string,"schema_revid": string | null,"status": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"decided_at"?: string | null,"decided_by"?: string | null,"document_id": string,"error"?: string | null,"extraction_id"?: string | null,"kind"?: string | null,"labels"?: (string)[],"matched"?: Json | null,"org_id": string,"prompt_revid"?: string | null,"run_id": string,"schema_revid"?: string | null,"status"?: string
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"decided_at"?: string | null,"decided_by"?: string | null,"document_id"?: string,"error"?: string | null,"extraction_id"?: string | null,"kind"?: string | null,"labels"?: (string)[],"matched"?: Json | null,"org_id"?: string,"prompt_revid"?: string | null,"run_id"?: string,"schema_revid"?: string | null,"status"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "auto_creations_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "auto_creations_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "auto_creations_extraction_id_org_id_fkey"
      columns: ["extraction_id","org_id"]
isOneToOne: false
      referencedRelation: "extractions"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "auto_creations_prompt_revid_org_id_fkey"
      columns: ["prompt_revid","org_id"]
isOneToOne: false
      referencedRelation: "prompt_versions"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "auto_creations_schema_revid_org_id_fkey"
      columns: ["schema_revid","org_id"]
isOneToOne: false
      referencedRelation: "schema_versions"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"changes": {
                  Row: {
                    "created_at": string,"created_by": string | null,"document_id": string | null,"extraction_id": string | null,"id": string,"number": number | null,"org_id": string,"run_id": string | null,"stack_id": string | null,"type": string,"webhook_id": string | null,"written": number
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"document_id"?: string | null,"extraction_id"?: string | null,"id"?: string,"number"?: number | null,"org_id": string,"run_id"?: string | null,"stack_id"?: string | null,"type": string,"webhook_id"?: string | null,"written"?: never
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"document_id"?: string | null,"extraction_id"?: string | null,"id"?: string,"number"?: number | null,"org_id"?: string,"run_id"?: string | null,"stack_id"?: string | null,"type"?: string,"webhook_id"?: string | null,"written"?: never
                  }
                  Relationships: [
                    {
      foreignKeyName: "changes_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"comments": {
                  Row: {
                    "body": string,"created_at": string,"created_by": string | null,"document_id": string,"id": string,"org_id": string,"path": string | null,"user_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "body": string,"created_at"?: string,"created_by"?: string | null,"document_id": string,"id"?: string,"org_id"?: string,"path"?: string | null,"user_id"?: string | null
                  }
                  Update: {
                    "body"?: string,"created_at"?: string,"created_by"?: string | null,"document_id"?: string,"id"?: string,"org_id"?: string,"path"?: string | null,"user_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "comments_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "comments_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"credit_limits": {
                  Row: {
                    "created_at": string,"created_by": string | null,"max_bytes": number | null,"max_concurrent_runs": number | null,"max_documents": number | null,"max_usd": number | null,"org_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"max_bytes"?: number | null,"max_concurrent_runs"?: number | null,"max_documents"?: number | null,"max_usd"?: number | null,"org_id": string
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"max_bytes"?: number | null,"max_concurrent_runs"?: number | null,"max_documents"?: number | null,"max_usd"?: number | null,"org_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "credit_limits_org_id_fkey"
      columns: ["org_id"]
isOneToOne: true
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"document_pages": {
                  Row: {
                    "created_at": string,"created_by": string | null,"document_id": string,"engine": string,"height": number,"number": number,"org_id": string,"text": string,"width": number,"words": NonNullable<Json>
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"document_id": string,"engine": string,"height": number,"number": number,"org_id": string,"text": string,"width": number,"words": NonNullable<Json>
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"document_id"?: string,"engine"?: string,"height"?: number,"number"?: number,"org_id"?: string,"text"?: string,"width"?: number,"words"?: NonNullable<Json>
                  }
                  Relationships: [
                    {
      foreignKeyName: "document_pages_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "document_pages_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"document_tags": {
                  Row: {
                    "created_at": string,"created_by": string | null,"document_created_at": string,"document_id": string,"org_id": string,"run_id": string | null,"tag_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"document_created_at": string,"document_id": string,"org_id": string,"run_id"?: string | null,"tag_id": string
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"document_created_at"?: string,"document_id"?: string,"org_id"?: string,"run_id"?: string | null,"tag_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "document_tags_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "document_tags_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "document_tags_tag_id_org_id_fkey"
      columns: ["tag_id","org_id"]
isOneToOne: false
      referencedRelation: "tags"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"documents": {
                  Row: {
                    "assignee_id": string | null,"auto_create": boolean | null,"byte_size": number | null,"content_sha256": string | null,"created_at": string,"created_by": string | null,"error": string | null,"error_code": string | null,"external_id": string | null,"extract_revid": string | null,"extract_when_read": boolean,"extraction_stage": string,"filename": string,"id": string,"media_type": string | null,"metadata": NonNullable<Json>,"number_in_parent": number | null,"org_id": string,"page_count": number | null,"pages_read": number | null,"pages_to_read": number | null,"parent_document_id": string | null,"status": string,"storage_path": string,"unlocked_path": string | null,"user_id": string | null,"warnings": NonNullable<Json>
                  }
                  ComputedFields: never
                  Insert: {
                    "assignee_id"?: string | null,"auto_create"?: boolean | null,"byte_size"?: number | null,"content_sha256"?: string | null,"created_at"?: string,"created_by"?: string | null,"error"?: string | null,"error_code"?: string | null,"external_id"?: string | null,"extract_revid"?: string | null,"extract_when_read"?: boolean,"extraction_stage"?: string,"filename": string,"id"?: string,"media_type"?: string | null,"metadata"?: NonNullable<Json>,"number_in_parent"?: number | null,"org_id"?: string,"page_count"?: number | null,"pages_read"?: number | null,"pages_to_read"?: number | null,"parent_document_id"?: string | null,"status"?: string,"storage_path": string,"unlocked_path"?: string | null,"user_id"?: string | null,"warnings"?: NonNullable<Json>
                  }
                  Update: {
                    "assignee_id"?: string | null,"auto_create"?: boolean | null,"byte_size"?: number | null,"content_sha256"?: string | null,"created_at"?: string,"created_by"?: string | null,"error"?: string | null,"error_code"?: string | null,"external_id"?: string | null,"extract_revid"?: string | null,"extract_when_read"?: boolean,"extraction_stage"?: string,"filename"?: string,"id"?: string,"media_type"?: string | null,"metadata"?: NonNullable<Json>,"number_in_parent"?: number | null,"org_id"?: string,"page_count"?: number | null,"pages_read"?: number | null,"pages_to_read"?: number | null,"parent_document_id"?: string | null,"status"?: string,"storage_path"?: string,"unlocked_path"?: string | null,"user_id"?: string | null,"warnings"?: NonNullable<Json>
                  }
                  Relationships: [
                    {
      foreignKeyName: "documents_extract_revid_org_id_fkey"
      columns: ["extract_revid","org_id"]
isOneToOne: false
      referencedRelation: "schema_versions"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "documents_org_id_assignee_id_fkey"
      columns: ["org_id","assignee_id"]
isOneToOne: false
      referencedRelation: "memberships"
      referencedColumns: ["org_id","user_id"]
    },{
      foreignKeyName: "documents_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "documents_parent_document_id_org_id_fkey"
      columns: ["parent_document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "documents_parent_document_id_org_id_fkey"
      columns: ["parent_document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"extraction_journal": {
                  Row: {
                    "actor": string,"call_id": string | null,"created_at": string,"created_by": string | null,"dictated_by": string | null,"extraction_id": string,"id": number,"new": Json | null,"old": Json | null,"org_id": string,"path": (string)[],"run_id": string | null,"steps": string,"version": number
                  }
                  ComputedFields: never
                  Insert: {
                    "actor": string,"call_id"?: string | null,"created_at"?: string,"created_by"?: string | null,"dictated_by"?: string | null,"extraction_id": string,"id"?: never,"new"?: Json | null,"old"?: Json | null,"org_id": string,"path": (string)[],"run_id"?: string | null,"steps": string,"version": number
                  }
                  Update: {
                    "actor"?: string,"call_id"?: string | null,"created_at"?: string,"created_by"?: string | null,"dictated_by"?: string | null,"extraction_id"?: string,"id"?: never,"new"?: Json | null,"old"?: Json | null,"org_id"?: string,"path"?: (string)[],"run_id"?: string | null,"steps"?: string,"version"?: number
                  }
                  Relationships: [
                    {
      foreignKeyName: "extraction_journal_extraction_id_org_id_fkey"
      columns: ["extraction_id","org_id"]
isOneToOne: false
      referencedRelation: "extractions"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"extraction_proposals": {
                  Row: {
                    "call_id": string | null,"confidence_scores": NonNullable<Json>,"created_at": string,"created_by": string | null,"decided_at": string | null,"decided_by": string | null,"evidence": NonNullable<Json>,"extraction_id": string,"id": string,"name": string,"new": Json | null,"old": NonNullable<Json>,"org_id": string,"path": (string)[],"run_id": string | null,"status": string
                  }
                  ComputedFields: never
                  Insert: {
                    "call_id"?: string | null,"confidence_scores": NonNullable<Json>,"created_at"?: string,"created_by"?: string | null,"decided_at"?: string | null,"decided_by"?: string | null,"evidence": NonNullable<Json>,"extraction_id": string,"id"?: string,"name": string,"new"?: Json | null,"old": NonNullable<Json>,"org_id": string,"path": (string)[],"run_id"?: string | null,"status"?: string
                  }
                  Update: {
                    "call_id"?: string | null,"confidence_scores"?: NonNullable<Json>,"created_at"?: string,"created_by"?: string | null,"decided_at"?: string | null,"decided_by"?: string | null,"evidence"?: NonNullable<Json>,"extraction_id"?: string,"id"?: string,"name"?: string,"new"?: Json | null,"old"?: NonNullable<Json>,"org_id"?: string,"path"?: (string)[],"run_id"?: string | null,"status"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "extraction_proposals_extraction_id_org_id_fkey"
      columns: ["extraction_id","org_id"]
isOneToOne: false
      referencedRelation: "extractions"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"extractions": {
                  Row: {
                    "accepted": NonNullable<Json>,"audit_rate": number | null,"confidence_scores": NonNullable<Json>,"confidences": NonNullable<Json>,"created_at": string,"created_by": string | null,"document_id": string,"document_type": string | null,"document_type_by": string | null,"drawn_to": number,"evidence": NonNullable<Json>,"extracted_fields": NonNullable<Json>,"id": string,"is_suggestion": boolean,"is_trial": boolean,"is_valid": boolean | null,"layout": string | null,"layout_words": (number)[] | null,"locks": NonNullable<Json>,"min_confidences": NonNullable<Json>,"model": string | null,"org_id": string,"precedence": number,"problems": NonNullable<Json>,"prompt_revid": string | null,"removed_items": NonNullable<Json>,"review_count": number,"reviewed_at": string | null,"reviewed_by": string | null,"run_id": string | null,"schema": Json | null,"schema_revid": string | null,"second_reading": NonNullable<Json>,"status": string,"unseen_count": number,"updated_at": string,"user_id": string | null,"version": number
                  }
                  ComputedFields: never
                  Insert: {
                    "accepted"?: NonNullable<Json>,"audit_rate"?: number | null,"confidence_scores"?: NonNullable<Json>,"confidences"?: NonNullable<Json>,"created_at"?: string,"created_by"?: string | null,"document_id": string,"document_type"?: string | null,"document_type_by"?: string | null,"drawn_to"?: number,"evidence"?: NonNullable<Json>,"extracted_fields"?: NonNullable<Json>,"id"?: string,"is_suggestion"?: boolean,"is_trial"?: boolean,"is_valid"?: boolean | null,"layout"?: string | null,"layout_words"?: (number)[] | null,"locks"?: NonNullable<Json>,"min_confidences"?: NonNullable<Json>,"model"?: string | null,"org_id"?: string,"precedence"?: never,"problems"?: NonNullable<Json>,"prompt_revid"?: string | null,"removed_items"?: NonNullable<Json>,"review_count"?: number,"reviewed_at"?: string | null,"reviewed_by"?: string | null,"run_id"?: string | null,"schema"?: Json | null,"schema_revid"?: string | null,"second_reading"?: NonNullable<Json>,"status"?: string,"unseen_count"?: number,"updated_at"?: string,"user_id"?: string | null,"version"?: number
                  }
                  Update: {
                    "accepted"?: NonNullable<Json>,"audit_rate"?: number | null,"confidence_scores"?: NonNullable<Json>,"confidences"?: NonNullable<Json>,"created_at"?: string,"created_by"?: string | null,"document_id"?: string,"document_type"?: string | null,"document_type_by"?: string | null,"drawn_to"?: number,"evidence"?: NonNullable<Json>,"extracted_fields"?: NonNullable<Json>,"id"?: string,"is_suggestion"?: boolean,"is_trial"?: boolean,"is_valid"?: boolean | null,"layout"?: string | null,"layout_words"?: (number)[] | null,"locks"?: NonNullable<Json>,"min_confidences"?: NonNullable<Json>,"model"?: string | null,"org_id"?: string,"precedence"?: never,"problems"?: NonNullable<Json>,"prompt_revid"?: string | null,"removed_items"?: NonNullable<Json>,"review_count"?: number,"reviewed_at"?: string | null,"reviewed_by"?: string | null,"run_id"?: string | null,"schema"?: Json | null,"schema_revid"?: string | null,"second_reading"?: NonNullable<Json>,"status"?: string,"unseen_count"?: number,"updated_at"?: string,"user_id"?: string | null,"version"?: number
                  }
                  Relationships: [
                    {
      foreignKeyName: "extractions_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "extractions_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "extractions_prompt_revid_org_id_fkey"
      columns: ["prompt_revid","org_id"]
isOneToOne: false
      referencedRelation: "prompt_versions"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "extractions_schema_revid_org_id_fkey"
      columns: ["schema_revid","org_id"]
isOneToOne: false
      referencedRelation: "schema_versions"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"fields": {
                  Row: {
                    "checked_at": string | null,"checked_by": string | null,"checked_confidence": number | null,"checked_revid": string | null,"confidence": number | null,"currency": string | null,"day": string | null,"document_id": string,"extraction_id": string,"id": number,"indexes": (number)[],"is_absent": boolean,"is_verified": boolean,"kind": string,"number": number | null,"org_id": string,"outcome": string | null,"path": string,"pattern": string,"pattern_key": string,"reason": string | null,"row_key": number,"state": string | null,"status": string,"text": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "checked_at"?: string | null,"checked_by"?: string | null,"checked_confidence"?: number | null,"checked_revid"?: string | null,"confidence"?: number | null,"currency"?: string | null,"day"?: string | null,"document_id": string,"extraction_id": string,"id"?: never,"indexes": (number)[],"is_absent"?: boolean,"is_verified": boolean,"kind": string,"number"?: number | null,"org_id": string,"outcome"?: string | null,"path": string,"pattern": string,"pattern_key"?: never,"reason"?: string | null,"row_key"?: never,"state"?: string | null,"status": string,"text"?: string | null
                  }
                  Update: {
                    "checked_at"?: string | null,"checked_by"?: string | null,"checked_confidence"?: number | null,"checked_revid"?: string | null,"confidence"?: number | null,"currency"?: string | null,"day"?: string | null,"document_id"?: string,"extraction_id"?: string,"id"?: never,"indexes"?: (number)[],"is_absent"?: boolean,"is_verified"?: boolean,"kind"?: string,"number"?: number | null,"org_id"?: string,"outcome"?: string | null,"path"?: string,"pattern"?: string,"pattern_key"?: never,"reason"?: string | null,"row_key"?: never,"state"?: string | null,"status"?: string,"text"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "fields_extraction_id_document_id_org_id_fkey"
      columns: ["extraction_id","document_id","org_id"]
isOneToOne: false
      referencedRelation: "extractions"
      referencedColumns: ["id","document_id","org_id"]
    }
                  ]
                },"invitations": {
                  Row: {
                    "accepted_at": string | null,"accepted_by": string | null,"created_at": string,"created_by": string | null,"email": string | null,"expires_at": string,"hash": string,"id": string,"org_id": string,"revoked_at": string | null,"revoked_by": string | null,"role": string
                  }
                  ComputedFields: never
                  Insert: {
                    "accepted_at"?: string | null,"accepted_by"?: string | null,"created_at"?: string,"created_by"?: string | null,"email"?: string | null,"expires_at": string,"hash": string,"id"?: string,"org_id": string,"revoked_at"?: string | null,"revoked_by"?: string | null,"role": string
                  }
                  Update: {
                    "accepted_at"?: string | null,"accepted_by"?: string | null,"created_at"?: string,"created_by"?: string | null,"email"?: string | null,"expires_at"?: string,"hash"?: string,"id"?: string,"org_id"?: string,"revoked_at"?: string | null,"revoked_by"?: string | null,"role"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "invitations_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"memberships": {
                  Row: {
                    "created_at": string,"created_by": string | null,"org_id": string,"role": string,"user_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"org_id": string,"role": string,"user_id": string
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"org_id"?: string,"role"?: string,"user_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "memberships_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"organisations": {
                  Row: {
                    "approvers": string,"auto_approved_tools": (string)[],"auto_create": boolean,"created_at": string,"created_by": string | null,"examples": boolean,"id": string,"max_error": number,"name": string,"personal_of": string | null,"second_person": boolean,"second_reading": string
                  }
                  ComputedFields: never
                  Insert: {
                    "approvers"?: string,"auto_approved_tools"?: (string)[],"auto_create"?: boolean,"created_at"?: string,"created_by"?: string | null,"examples"?: boolean,"id"?: string,"max_error"?: number,"name": string,"personal_of"?: string | null,"second_person"?: boolean,"second_reading"?: string
                  }
                  Update: {
                    "approvers"?: string,"auto_approved_tools"?: (string)[],"auto_create"?: boolean,"created_at"?: string,"created_by"?: string | null,"examples"?: boolean,"id"?: string,"max_error"?: number,"name"?: string,"personal_of"?: string | null,"second_person"?: boolean,"second_reading"?: string
                  }
                  Relationships: [

                  ]
                },"prompt_versions": {
                  Row: {
                    "call_id": string | null,"content": string,"created_at": string,"created_by": string | null,"id": string,"model": string | null,"name": string,"number": number,"org_id": string,"prompt_id": string,"run_id": string | null,"schema_id": string | null,"schema_version": number | null,"tag_ids": (string)[]
                  }
                  ComputedFields: never
                  Insert: {
                    "call_id"?: string | null,"content": string,"created_at"?: string,"created_by"?: string | null,"id"?: string,"model"?: string | null,"name": string,"number": number,"org_id": string,"prompt_id": string,"run_id"?: string | null,"schema_id"?: string | null,"schema_version"?: number | null,"tag_ids"?: (string)[]
                  }
                  Update: {
                    "call_id"?: string | null,"content"?: string,"created_at"?: string,"created_by"?: string | null,"id"?: string,"model"?: string | null,"name"?: string,"number"?: number,"org_id"?: string,"prompt_id"?: string,"run_id"?: string | null,"schema_id"?: string | null,"schema_version"?: number | null,"tag_ids"?: (string)[]
                  }
                  Relationships: [
                    {
      foreignKeyName: "prompt_versions_prompt_id_org_id_fkey"
      columns: ["prompt_id","org_id"]
isOneToOne: false
      referencedRelation: "prompts"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "prompt_versions_schema_id_org_id_fkey"
      columns: ["schema_id","org_id"]
isOneToOne: false
      referencedRelation: "schemas"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "prompt_versions_schema_id_schema_version_org_id_fkey"
      columns: ["schema_id","schema_version","org_id"]
isOneToOne: false
      referencedRelation: "schema_versions"
      referencedColumns: ["schema_id","number","org_id"]
    }
                  ]
                },"prompts": {
                  Row: {
                    "created_at": string,"created_by": string | null,"deleted_at": string | null,"id": string,"name": string,"org_id": string,"run_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"deleted_at"?: string | null,"id"?: string,"name": string,"org_id": string,"run_id"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"deleted_at"?: string | null,"id"?: string,"name"?: string,"org_id"?: string,"run_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "prompts_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"queue_limits": {
                  Row: {
                    "created_at": string,"created_by": string | null,"max_waiting_documents": number | null,"max_waiting_runs": number | null,"org_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"max_waiting_documents"?: number | null,"max_waiting_runs"?: number | null,"org_id": string
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"max_waiting_documents"?: number | null,"max_waiting_runs"?: number | null,"org_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "queue_limits_org_id_fkey"
      columns: ["org_id"]
isOneToOne: true
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"run_events": {
                  Row: {
                    "body": NonNullable<Json>,"created_at": string,"created_by": string | null,"number": number,"org_id": string,"run_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "body": NonNullable<Json>,"created_at"?: string,"created_by"?: string | null,"number": number,"org_id": string,"run_id": string
                  }
                  Update: {
                    "body"?: NonNullable<Json>,"created_at"?: string,"created_by"?: string | null,"number"?: number,"org_id"?: string,"run_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "run_events_run_id_org_id_fkey"
      columns: ["run_id","org_id"]
isOneToOne: false
      referencedRelation: "runs"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"runs": {
                  Row: {
                    "agent": string,"answer": string | null,"approval": string,"attached": boolean,"auto_approved_tools": (string)[],"background": boolean,"by_agent": boolean,"consecutive_failures": number,"created_at": string,"created_by": string | null,"document_id": string | null,"error": string | null,"error_code": string | null,"examples": Json | null,"extraction_id": string | null,"fencing_token": number,"finished_at": string | null,"id": string,"idempotency_key": string | null,"input": NonNullable<Json>,"lock_key": string,"max_cost_usd": number | null,"max_turns": number | null,"model": string | null,"org_id": string,"pages_read": unknown,"parent_call_id": string | null,"parent_run_id": string | null,"request_hash": string | null,"result": Json | null,"root_run_id": string,"root_thread_id": string | null,"session_id": string | null,"stack_id": string | null,"started_at": string | null,"status": string,"task": string,"thread_id": string | null,"waiting_call": string | null,"waiting_for_capacity_since": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "agent": string,"answer"?: string | null,"approval"?: string,"attached"?: boolean,"auto_approved_tools"?: (string)[],"background"?: boolean,"by_agent"?: boolean,"consecutive_failures"?: number,"created_at"?: string,"created_by"?: string | null,"document_id"?: string | null,"error"?: string | null,"error_code"?: string | null,"examples"?: Json | null,"extraction_id"?: string | null,"fencing_token"?: number,"finished_at"?: string | null,"id"?: string,"idempotency_key"?: string | null,"input"?: NonNullable<Json>,"lock_key"?: string,"max_cost_usd"?: number | null,"max_turns"?: number | null,"model"?: string | null,"org_id"?: string,"pages_read"?: unknown,"parent_call_id"?: string | null,"parent_run_id"?: string | null,"request_hash"?: string | null,"result"?: Json | null,"root_run_id"?: string,"root_thread_id"?: string | null,"session_id"?: string | null,"stack_id"?: string | null,"started_at"?: string | null,"status"?: string,"task": string,"thread_id"?: string | null,"waiting_call"?: string | null,"waiting_for_capacity_since"?: string | null
                  }
                  Update: {
                    "agent"?: string,"answer"?: string | null,"approval"?: string,"attached"?: boolean,"auto_approved_tools"?: (string)[],"background"?: boolean,"by_agent"?: boolean,"consecutive_failures"?: number,"created_at"?: string,"created_by"?: string | null,"document_id"?: string | null,"error"?: string | null,"error_code"?: string | null,"examples"?: Json | null,"extraction_id"?: string | null,"fencing_token"?: number,"finished_at"?: string | null,"id"?: string,"idempotency_key"?: string | null,"input"?: NonNullable<Json>,"lock_key"?: string,"max_cost_usd"?: number | null,"max_turns"?: number | null,"model"?: string | null,"org_id"?: string,"pages_read"?: unknown,"parent_call_id"?: string | null,"parent_run_id"?: string | null,"request_hash"?: string | null,"result"?: Json | null,"root_run_id"?: string,"root_thread_id"?: string | null,"session_id"?: string | null,"stack_id"?: string | null,"started_at"?: string | null,"status"?: string,"task"?: string,"thread_id"?: string | null,"waiting_call"?: string | null,"waiting_for_capacity_since"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "runs_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "runs_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "runs_extraction_id_document_id_org_id_fkey"
      columns: ["extraction_id","document_id","org_id"]
isOneToOne: false
      referencedRelation: "extractions"
      referencedColumns: ["id","document_id","org_id"]
    },{
      foreignKeyName: "runs_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "runs_parent_run_id_org_id_fkey"
      columns: ["parent_run_id","org_id"]
isOneToOne: false
      referencedRelation: "runs"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "runs_stack_id_org_id_fkey"
      columns: ["stack_id","org_id"]
isOneToOne: false
      referencedRelation: "stacks"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "runs_thread_id_org_id_fkey"
      columns: ["thread_id","org_id"]
isOneToOne: false
      referencedRelation: "threads"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"saved_views": {
                  Row: {
                    "created_at": string,"created_by": string | null,"id": string,"name": string,"org_id": string,"schema_id": string | null,"settings": NonNullable<Json>,"stack_id": string | null,"user_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"id"?: string,"name": string,"org_id"?: string,"schema_id"?: string | null,"settings": NonNullable<Json>,"stack_id"?: string | null,"user_id"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"id"?: string,"name"?: string,"org_id"?: string,"schema_id"?: string | null,"settings"?: NonNullable<Json>,"stack_id"?: string | null,"user_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "saved_views_schema_id_org_id_fkey"
      columns: ["schema_id","org_id"]
isOneToOne: false
      referencedRelation: "schemas"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "saved_views_stack_id_org_id_fkey"
      columns: ["stack_id","org_id"]
isOneToOne: false
      referencedRelation: "stacks"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"schema_versions": {
                  Row: {
                    "call_id": string | null,"created_at": string,"created_by": string | null,"id": string,"name": string,"number": number,"org_id": string,"run_id": string | null,"schema": NonNullable<Json>,"schema_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "call_id"?: string | null,"created_at"?: string,"created_by"?: string | null,"id"?: string,"name": string,"number": number,"org_id": string,"run_id"?: string | null,"schema": NonNullable<Json>,"schema_id": string
                  }
                  Update: {
                    "call_id"?: string | null,"created_at"?: string,"created_by"?: string | null,"id"?: string,"name"?: string,"number"?: number,"org_id"?: string,"run_id"?: string | null,"schema"?: NonNullable<Json>,"schema_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "schema_versions_schema_id_org_id_fkey"
      columns: ["schema_id","org_id"]
isOneToOne: false
      referencedRelation: "schemas"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"schemas": {
                  Row: {
                    "created_at": string,"created_by": string | null,"deleted_at": string | null,"differences": NonNullable<Json>,"id": string,"max_error": number | null,"name": string,"org_id": string,"recount": boolean,"required_fields": (string)[],"review_policy": Json | null,"run_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"deleted_at"?: string | null,"differences"?: NonNullable<Json>,"id"?: string,"max_error"?: number | null,"name": string,"org_id": string,"recount"?: boolean,"required_fields"?: (string)[],"review_policy"?: Json | null,"run_id"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"deleted_at"?: string | null,"differences"?: NonNullable<Json>,"id"?: string,"max_error"?: number | null,"name"?: string,"org_id"?: string,"recount"?: boolean,"required_fields"?: (string)[],"review_policy"?: Json | null,"run_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "schemas_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"settings_journal": {
                  Row: {
                    "created_at": string,"created_by": string | null,"id": string,"new": NonNullable<Json>,"old": NonNullable<Json>,"org_id": string,"setting": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"id"?: string,"new": NonNullable<Json>,"old": NonNullable<Json>,"org_id": string,"setting": string
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"id"?: string,"new"?: NonNullable<Json>,"old"?: NonNullable<Json>,"org_id"?: string,"setting"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "settings_journal_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"source_failures": {
                  Row: {
                    "attempted_at": string,"attempts": number,"due_at": string | null,"error_code": string,"name": string,"org_id": string,"source_id": string,"version": string
                  }
                  ComputedFields: never
                  Insert: {
                    "attempted_at"?: string,"attempts"?: number,"due_at"?: string | null,"error_code": string,"name": string,"org_id": string,"source_id": string,"version": string
                  }
                  Update: {
                    "attempted_at"?: string,"attempts"?: number,"due_at"?: string | null,"error_code"?: string,"name"?: string,"org_id"?: string,"source_id"?: string,"version"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "source_failures_source_id_org_id_fkey"
      columns: ["source_id","org_id"]
isOneToOne: false
      referencedRelation: "sources"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"sources": {
                  Row: {
                    "address": string,"attempts": number,"checked_at": string | null,"created_at": string,"created_by": string | null,"due_at": string,"error_code": string | null,"extract": string | null,"failing_since": string | null,"folder": string,"id": string,"is_paused": boolean,"kind": string,"last_object": string | null,"last_object_at": string | null,"org_id": string,"position": string | null,"secret": string,"skipped": NonNullable<Json>,"stack_id": string | null,"taken": number,"username": string
                  }
                  ComputedFields: never
                  Insert: {
                    "address": string,"attempts"?: number,"checked_at"?: string | null,"created_at"?: string,"created_by"?: string | null,"due_at"?: string,"error_code"?: string | null,"extract"?: string | null,"failing_since"?: string | null,"folder"?: string,"id"?: string,"is_paused"?: boolean,"kind": string,"last_object"?: string | null,"last_object_at"?: string | null,"org_id"?: string,"position"?: string | null,"secret": string,"skipped"?: NonNullable<Json>,"stack_id"?: string | null,"taken"?: number,"username": string
                  }
                  Update: {
                    "address"?: string,"attempts"?: number,"checked_at"?: string | null,"created_at"?: string,"created_by"?: string | null,"due_at"?: string,"error_code"?: string | null,"extract"?: string | null,"failing_since"?: string | null,"folder"?: string,"id"?: string,"is_paused"?: boolean,"kind"?: string,"last_object"?: string | null,"last_object_at"?: string | null,"org_id"?: string,"position"?: string | null,"secret"?: string,"skipped"?: NonNullable<Json>,"stack_id"?: string | null,"taken"?: number,"username"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "sources_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "sources_stack_id_org_id_fkey"
      columns: ["stack_id","org_id"]
isOneToOne: false
      referencedRelation: "stacks"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"stack_documents": {
                  Row: {
                    "created_at": string,"created_by": string | null,"document_id": string,"org_id": string,"stack_id": string,"user_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"document_id": string,"org_id"?: string,"stack_id": string,"user_id"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"document_id"?: string,"org_id"?: string,"stack_id"?: string,"user_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "stack_documents_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "stack_documents_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "stack_documents_stack_id_org_id_fkey"
      columns: ["stack_id","org_id"]
isOneToOne: false
      referencedRelation: "stacks"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"stack_tables": {
                  Row: {
                    "created_at": string,"created_by": string | null,"org_id": string,"row_path": string | null,"schema_id": string,"stack_id": string,"user_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"org_id": string,"row_path"?: string | null,"schema_id": string,"stack_id": string,"user_id"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"org_id"?: string,"row_path"?: string | null,"schema_id"?: string,"stack_id"?: string,"user_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "stack_tables_schema_id_org_id_fkey"
      columns: ["schema_id","org_id"]
isOneToOne: false
      referencedRelation: "schemas"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "stack_tables_stack_id_org_id_fkey"
      columns: ["stack_id","org_id"]
isOneToOne: false
      referencedRelation: "stacks"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"stacks": {
                  Row: {
                    "created_at": string,"created_by": string | null,"id": string,"name": string,"org_id": string,"user_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"id"?: string,"name": string,"org_id"?: string,"user_id"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"id"?: string,"name"?: string,"org_id"?: string,"user_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "stacks_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"storage_usage": {
                  Row: {
                    "bytes": number,"created_at": string,"created_by": string | null,"documents": number,"org_id": string,"reported_percent": number
                  }
                  ComputedFields: never
                  Insert: {
                    "bytes": number,"created_at"?: string,"created_by"?: string | null,"documents": number,"org_id": string,"reported_percent"?: number
                  }
                  Update: {
                    "bytes"?: number,"created_at"?: string,"created_by"?: string | null,"documents"?: number,"org_id"?: string,"reported_percent"?: number
                  }
                  Relationships: [
                    {
      foreignKeyName: "storage_usage_org_id_fkey"
      columns: ["org_id"]
isOneToOne: true
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"tags": {
                  Row: {
                    "color": string,"created_at": string,"created_by": string | null,"deleted_at": string | null,"id": string,"name": string,"org_id": string,"run_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "color"?: string,"created_at"?: string,"created_by"?: string | null,"deleted_at"?: string | null,"id"?: string,"name": string,"org_id": string,"run_id"?: string | null
                  }
                  Update: {
                    "color"?: string,"created_at"?: string,"created_by"?: string | null,"deleted_at"?: string | null,"id"?: string,"name"?: string,"org_id"?: string,"run_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "tags_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"threads": {
                  Row: {
                    "agent": string,"created_at": string,"created_by": string | null,"document_id": string | null,"id": string,"org_id": string,"shared": boolean,"title": string | null,"updated_at": string,"working_state": NonNullable<Json>
                  }
                  ComputedFields: never
                  Insert: {
                    "agent": string,"created_at"?: string,"created_by"?: string | null,"document_id"?: string | null,"id"?: string,"org_id"?: string,"shared"?: boolean,"title"?: string | null,"updated_at"?: string,"working_state"?: NonNullable<Json>
                  }
                  Update: {
                    "agent"?: string,"created_at"?: string,"created_by"?: string | null,"document_id"?: string | null,"id"?: string,"org_id"?: string,"shared"?: boolean,"title"?: string | null,"updated_at"?: string,"working_state"?: NonNullable<Json>
                  }
                  Relationships: [
                    {
      foreignKeyName: "threads_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "threads_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "threads_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"tool_calls": {
                  Row: {
                    "approved_by": string | null,"arguments": NonNullable<Json>,"arguments_hash": string,"changes": Json | null,"code": string | null,"created_at": string,"created_by": string | null,"data": Json | null,"decided_at": string | null,"decided_by": string | null,"finished_at": string | null,"id": string,"org_id": string,"proposed": Json | null,"reason": string | null,"result": string | null,"run_id": string,"status": string,"target_hash": string | null,"target_version": number | null,"tool": string
                  }
                  ComputedFields: never
                  Insert: {
                    "approved_by"?: string | null,"arguments": NonNullable<Json>,"arguments_hash": string,"changes"?: Json | null,"code"?: string | null,"created_at"?: string,"created_by"?: string | null,"data"?: Json | null,"decided_at"?: string | null,"decided_by"?: string | null,"finished_at"?: string | null,"id": string,"org_id": string,"proposed"?: Json | null,"reason"?: string | null,"result"?: string | null,"run_id": string,"status": string,"target_hash"?: string | null,"target_version"?: number | null,"tool": string
                  }
                  Update: {
                    "approved_by"?: string | null,"arguments"?: NonNullable<Json>,"arguments_hash"?: string,"changes"?: Json | null,"code"?: string | null,"created_at"?: string,"created_by"?: string | null,"data"?: Json | null,"decided_at"?: string | null,"decided_by"?: string | null,"finished_at"?: string | null,"id"?: string,"org_id"?: string,"proposed"?: Json | null,"reason"?: string | null,"result"?: string | null,"run_id"?: string,"status"?: string,"target_hash"?: string | null,"target_version"?: number | null,"tool"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "tool_calls_run_id_org_id_fkey"
      columns: ["run_id","org_id"]
isOneToOne: false
      referencedRelation: "runs"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"upload_rules": {
                  Row: {
                    "created_at": string,"created_by": string | null,"document_type": string | null,"filename": string | null,"id": string,"number": number,"org_id": string,"schema_id": string | null,"sender": string | null,"stack_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"document_type"?: string | null,"filename"?: string | null,"id"?: string,"number": number,"org_id": string,"schema_id"?: string | null,"sender"?: string | null,"stack_id"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"document_type"?: string | null,"filename"?: string | null,"id"?: string,"number"?: number,"org_id"?: string,"schema_id"?: string | null,"sender"?: string | null,"stack_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "upload_rules_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "upload_rules_schema_id_org_id_fkey"
      columns: ["schema_id","org_id"]
isOneToOne: false
      referencedRelation: "schemas"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "upload_rules_stack_id_org_id_fkey"
      columns: ["stack_id","org_id"]
isOneToOne: false
      referencedRelation: "stacks"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"usage": {
                  Row: {
                    "agent": string,"cache_read_tokens": number,"cache_write_1h_tokens": number,"cache_write_5m_tokens": number,"cost_usd": number | null,"created_at": string,"created_by": string | null,"input_tokens": number,"is_reading": boolean,"message_id": string,"model": string,"org_id": string,"output_tokens": number,"root_run_id": string,"run_id": string,"schema_id": string | null,"task": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "agent": string,"cache_read_tokens": number,"cache_write_1h_tokens": number,"cache_write_5m_tokens": number,"cost_usd"?: number | null,"created_at"?: string,"created_by"?: string | null,"input_tokens": number,"is_reading"?: boolean,"message_id": string,"model": string,"org_id": string,"output_tokens": number,"root_run_id": string,"run_id": string,"schema_id"?: string | null,"task"?: string | null
                  }
                  Update: {
                    "agent"?: string,"cache_read_tokens"?: number,"cache_write_1h_tokens"?: number,"cache_write_5m_tokens"?: number,"cost_usd"?: number | null,"created_at"?: string,"created_by"?: string | null,"input_tokens"?: number,"is_reading"?: boolean,"message_id"?: string,"model"?: string,"org_id"?: string,"output_tokens"?: number,"root_run_id"?: string,"run_id"?: string,"schema_id"?: string | null,"task"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "usage_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"usage_by_day": {
                  Row: {
                    "agent": string,"cache_read_tokens": number,"cache_write_tokens": number,"cost_usd": number,"created_at": string,"created_by": string | null,"day": string,"documents_read": number,"id": number,"input_tokens": number,"messages": number,"model": string,"org_id": string,"output_tokens": number,"schema_id": string | null,"slot": number,"task": string | null,"unpriced": number
                  }
                  ComputedFields: never
                  Insert: {
                    "agent": string,"cache_read_tokens": number,"cache_write_tokens": number,"cost_usd": number,"created_at"?: string,"created_by"?: string | null,"day": string,"documents_read": number,"id"?: never,"input_tokens": number,"messages": number,"model": string,"org_id": string,"output_tokens": number,"schema_id"?: string | null,"slot": number,"task"?: string | null,"unpriced": number
                  }
                  Update: {
                    "agent"?: string,"cache_read_tokens"?: number,"cache_write_tokens"?: number,"cost_usd"?: number,"created_at"?: string,"created_by"?: string | null,"day"?: string,"documents_read"?: number,"id"?: never,"input_tokens"?: number,"messages"?: number,"model"?: string,"org_id"?: string,"output_tokens"?: number,"schema_id"?: string | null,"slot"?: number,"task"?: string | null,"unpriced"?: number
                  }
                  Relationships: [
                    {
      foreignKeyName: "usage_by_day_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"webhook_deliveries": {
                  Row: {
                    "attempted_at": string | null,"attempts": number,"change_id": string,"created_at": string,"due_at": string,"error_code": string | null,"http_status": number | null,"id": string,"org_id": string,"status": string,"webhook_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "attempted_at"?: string | null,"attempts"?: number,"change_id": string,"created_at"?: string,"due_at"?: string,"error_code"?: string | null,"http_status"?: number | null,"id"?: string,"org_id": string,"status"?: string,"webhook_id": string
                  }
                  Update: {
                    "attempted_at"?: string | null,"attempts"?: number,"change_id"?: string,"created_at"?: string,"due_at"?: string,"error_code"?: string | null,"http_status"?: number | null,"id"?: string,"org_id"?: string,"status"?: string,"webhook_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "webhook_deliveries_change_id_org_id_fkey"
      columns: ["change_id","org_id"]
isOneToOne: false
      referencedRelation: "changes"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "webhook_deliveries_webhook_id_org_id_fkey"
      columns: ["webhook_id","org_id"]
isOneToOne: false
      referencedRelation: "webhooks"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"webhooks": {
                  Row: {
                    "created_at": string,"created_by": string | null,"disabled_reason": string | null,"failing_since": string | null,"id": string,"is_enabled": boolean,"org_id": string,"previous_secret": string | null,"previous_secret_until": string | null,"run_id": string | null,"secret": string,"types": (string)[],"url": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"disabled_reason"?: string | null,"failing_since"?: string | null,"id"?: string,"is_enabled"?: boolean,"org_id"?: string,"previous_secret"?: string | null,"previous_secret_until"?: string | null,"run_id"?: string | null,"secret": string,"types"?: (string)[],"url": string
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"disabled_reason"?: string | null,"failing_since"?: string | null,"id"?: string,"is_enabled"?: boolean,"org_id"?: string,"previous_secret"?: string | null,"previous_secret_until"?: string | null,"run_id"?: string | null,"secret"?: string,"types"?: (string)[],"url"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "webhooks_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "webhooks_run_id_org_id_fkey"
      columns: ["run_id","org_id"]
isOneToOne: false
      referencedRelation: "runs"
      referencedColumns: ["id","org_id"]
    }
                  ]
                }
          }
          Views: {
            "current_extractions": {
                  Row: {
                    "created_at": string,"document_id": string,"document_type": string | null,"evidence": NonNullable<Json>,"extracted_fields": NonNullable<Json>,"id": string,"locks": NonNullable<Json>,"org_id": string,"review_count": number,"reviewed_by": string | null,"schema_revid": string | null,"status": string,"updated_at": string,"version": number
                  }
                  ComputedFields: never
                  Relationships: [
                    {
      foreignKeyName: "documents_org_id_fkey"
      columns: ["org_id"]
isOneToOne: false
      referencedRelation: "organisations"
      referencedColumns: ["id"]
    }
                  ]
                },"ocr_results": {
                  Row: {
                    "created_at": string | null,"document_id": string,"engine": string | null,"org_id": string,"page_count": number | null,"raw_text": string | null,"user_id": string | null
                  }
                  ComputedFields: never
                  Relationships: [
                    {
      foreignKeyName: "document_pages_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "document_pages_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    }
                  ]
                },"stack_table_rows": {
                  Row: {
                    "confidence_scores": Json | null,"document_id": string,"duplicate_of": string | null,"error": string | null,"error_code": string | null,"evidence": Json | null,"extracted_fields": Json | null,"extraction_id": string | null,"locks": Json | null,"org_id": string,"schema_id": string | null,"schema_revid": string | null,"stack_id": string,"state": string | null,"user_id": string | null,"version": number | null
                  }
                  ComputedFields: never
                  Relationships: [
                    {
      foreignKeyName: "stack_documents_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "current_extractions"
      referencedColumns: ["document_id","org_id"]
    },{
      foreignKeyName: "stack_documents_document_id_org_id_fkey"
      columns: ["document_id","org_id"]
isOneToOne: false
      referencedRelation: "documents"
      referencedColumns: ["id","org_id"]
    },{
      foreignKeyName: "stack_documents_stack_id_org_id_fkey"
      columns: ["stack_id","org_id"]
isOneToOne: false
      referencedRelation: "stacks"
      referencedColumns: ["id","org_id"]
    }
                  ]
                }
          }
          Functions: {
            "accept_invitation":
{ Args: { "p_token": string }; Returns: Json
                           },
"assign_document":
{ Args: { "p_document_id": string,"p_user_id": string }; Returns: undefined
                           },
"complete_extraction":
{ Args: { "p_extraction_id": string,"p_withdraw_to"?: string }; Returns: Json
                           },
"create_api_key":
{ Args: { "p_expires_at"?: string,"p_name": string,"p_org_id": string,"p_scopes": (string)[] }; Returns: Json
                           },
"create_organisation":
{ Args: { "p_name": string }; Returns: string
                           },
"create_prompt":
{ Args: { "p_content": string,"p_model"?: string,"p_name": string,"p_org_id": string,"p_schema_id"?: string,"p_schema_version"?: number,"p_tag_ids"?: (string)[] }; Returns: string
                           },
"create_schema":
{ Args: { "p_name": string,"p_org_id": string,"p_schema": Json }; Returns: string
                           },
"create_tag":
{ Args: { "p_color"?: string,"p_name": string,"p_org_id": string }; Returns: string
                           },
"decide_auto_creation":
{ Args: { "p_accepted": boolean,"p_document_id": string }; Returns: undefined
                           },
"decide_extraction_proposals":
{ Args: { "p_accepted": (string)[],"p_extraction_id": string,"p_rejected"?: (string)[] }; Returns: Json
                           },
"delete_account":
{ Args: Record<PropertyKey, never>; Returns: Json
                           },
"delete_comment":
{ Args: { "p_comment_id": string }; Returns: undefined
                           },
"delete_document":
{ Args: { "p_document_id": string }; Returns: string
                           },
"delete_extraction":
{ Args: { "p_extraction_id": string }; Returns: undefined
                           },
"delete_organisation":
{ Args: { "p_org_id": string }; Returns: undefined
                           },
"delete_prompt":
{ Args: { "p_prompt_id": string }; Returns: {
              "extractions": number
            }[]
                           },
"delete_run":
{ Args: { "p_run_id": string }; Returns: undefined
                           },
"delete_saved_view":
{ Args: { "p_view_id": string }; Returns: undefined
                           },
"delete_schema":
{ Args: { "p_schema_id": string }; Returns: {
              "extractions": number,"prompts": number,"stacks": number
            }[]
                           },
"delete_source":
{ Args: { "p_source_id": string }; Returns: undefined
                           },
"delete_stack":
{ Args: { "p_stack_id": string }; Returns: undefined
                           },
"delete_tag":
{ Args: { "p_tag_id": string }; Returns: {
              "documents": number,"prompts": number
            }[]
                           },
"delete_thread":
{ Args: { "p_thread_id": string }; Returns: undefined
                           },
"delete_webhook":
{ Args: { "p_webhook_id": string }; Returns: undefined
                           },
"deleted_organisation":
{ Args: { "p_org_id": string }; Returns: Json
                           },
"ensure_personal_organisation":
{ Args: Record<PropertyKey, never>; Returns: string
                           },
"identify_document":
{ Args: { "p_document_type": string,"p_extraction_id": string }; Returns: Json
                           },
"invite":
{ Args: { "p_days"?: number,"p_email"?: string,"p_org_id": string,"p_role": string }; Returns: Json
                           },
"read_invitation":
{ Args: { "p_token": string }; Returns: Json
                           },
"remove_extraction_field":
{ Args: { "p_extraction_id": string,"p_field_path": (string)[],"p_user_id"?: string }; Returns: Json
                           },
"remove_member":
{ Args: { "p_org_id": string,"p_user_id": string }; Returns: undefined
                           },
"remove_stack_document":
{ Args: { "p_document_id": string,"p_stack_id": string }; Returns: undefined
                           },
"rename_document":
{ Args: { "p_document_id": string,"p_filename": string }; Returns: undefined
                           },
"restore_extraction":
{ Args: { "p_confidences"?: Json,"p_evidence"?: Json,"p_extraction_id": string,"p_version": number }; Returns: Json
                           },
"revoke_api_key":
{ Args: { "p_key_id": string }; Returns: string
                           },
"revoke_invitation":
{ Args: { "p_invitation_id": string }; Returns: undefined
                           },
"save_extraction_fields":
{ Args: { "p_confidences"?: Json,"p_evidence"?: Json,"p_extraction_id": string,"p_fields": Json }; Returns: Json
                           },
"set_max_error":
{ Args: { "p_max_error": number,"p_schema_id": string }; Returns: undefined
                           },
"set_upload_rules":
{ Args: { "p_org_id": string,"p_rules": Json }; Returns: undefined
                           },
"tag_document":
{ Args: { "p_add"?: (string)[],"p_document_id": string,"p_remove"?: (string)[] }; Returns: undefined
                           },
"test_webhook":
{ Args: { "p_webhook_id": string }; Returns: string
                           },
"unlock_extraction_field":
{ Args: { "p_extraction_id": string,"p_field_path": (string)[] }; Returns: Json
                           },
"update_extraction_field":
{ Args: { "p_confidence"?: number,"p_confidences"?: Json,"p_evidence"?: Json,"p_extraction_id": string,"p_field_path": (string)[],"p_user_id"?: string,"p_value": Json }; Returns: Json
                           },
"update_extraction_fields":
{ Args: { "p_changes": Json,"p_confidences"?: Json,"p_evidence"?: Json,"p_extraction_id": string }; Returns: Json
                           },
"update_field":
{ Args: { "p_confidence"?: number,"p_extraction_id": string,"p_field_path": (string)[],"p_user_id"?: string,"p_value": Json }; Returns: Json
                           },
"update_prompt":
{ Args: { "p_content": string,"p_model": string,"p_name": string,"p_prompt_id": string,"p_revid"?: string,"p_schema_id": string,"p_schema_version"?: number,"p_tag_ids": (string)[] }; Returns: string
                           },
"update_schema":
{ Args: { "p_name"?: string,"p_revid"?: string,"p_schema"?: Json,"p_schema_id": string }; Returns: string
                           },
"update_tag":
{ Args: { "p_color"?: string,"p_name"?: string,"p_tag_id": string }; Returns: undefined
                           }
          }
          Enums: {
            [_ in never]: never
          }
          CompositeTypes: {
            [_ in never]: never
          }
        }
}

type DatabaseWithoutInternals = Omit<Database, '__InternalSupabase'>

type DefaultSchema = DatabaseWithoutInternals[Extract<keyof Database, "public">]

export type Tables<
  DefaultSchemaTableNameOrOptions extends
    | keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof (DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"] &
        DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"])
    : never = never
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? (DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"] &
      DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"])[TableName] extends {
      Row: infer R
    }
    ? R
    : never
  : DefaultSchemaTableNameOrOptions extends keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
  ? (DefaultSchema["Tables"] & DefaultSchema["Views"])[DefaultSchemaTableNameOrOptions] extends {
      Row: infer R
    }
    ? R
    : never
  : never

export type TablesInsert<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never = never
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends {
      Insert: infer I
    }
    ? I
    : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
  ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Insert: infer I
    }
    ? I
    : never
  : never

export type TablesUpdate<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never = never
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends {
      Update: infer U
    }
    ? U
    : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
  ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Update: infer U
    }
    ? U
    : never
  : never

export type Enums<
  DefaultSchemaEnumNameOrOptions extends
    | keyof DefaultSchema["Enums"]
    | { schema: keyof DatabaseWithoutInternals },
  EnumName extends DefaultSchemaEnumNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"]
    : never = never
> = DefaultSchemaEnumNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"][EnumName]
  : DefaultSchemaEnumNameOrOptions extends keyof DefaultSchema["Enums"]
  ? DefaultSchema["Enums"][DefaultSchemaEnumNameOrOptions]
  : never

export type CompositeTypes<
  PublicCompositeTypeNameOrOptions extends
    | keyof DefaultSchema["CompositeTypes"]
    | { schema: keyof DatabaseWithoutInternals },
  CompositeTypeName extends PublicCompositeTypeNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"]
    : never = never
> = PublicCompositeTypeNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"][CompositeTypeName]
  : PublicCompositeTypeNameOrOptions extends keyof DefaultSchema["CompositeTypes"]
  ? DefaultSchema["CompositeTypes"][PublicCompositeTypeNameOrOptions]
  : never

export const Constants = {
  "public": {
          Enums: {

          }
        }
} as const
