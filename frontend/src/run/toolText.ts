/** Tool calls in the person's language: what a call does, and how much it found. The name of a tool comes from the
 * catalogue, what it works on from its arguments. */

import { pathLabel } from '../fields/labels';
import en from '../locales/en.json';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';

const MOST_NAMES = 6;
const MOST_CHARACTERS = 200;

export interface ShownCall {
  tool: string;
  input?: Record<string, unknown> | undefined;
  /** The service's text, for tools that the page does not know. */
  message: string;
  /** Names of the documents that the call is about. */
  files?: readonly string[] | undefined;
  details?: Record<string, unknown> | undefined;
}

/** Return what a tool does: "Change a field". */
export function toolName(tool: string): string {
  return isKnown(tool) ? t(`tools.${tool}`) : visibleText(tool.replaceAll('_', ' '));
}

/** Return what a call does: "Change a field: Total". */
export function toolText(call: ShownCall): string {
  if (!isKnown(call.tool)) return visibleText(call.message);
  const subject = shortened(visibleText(subjectOf(call)));
  const found = countFound(call);
  const text = subject === '' ? toolName(call.tool) : t('runs.step', { tool: toolName(call.tool), subject });
  return found === null ? text : t('runs.stepFound', { step: text, found });
}

/** Return what people call an agent: "Chat". */
export function agentName(agent: string): string {
  return Object.hasOwn(en.agents, agent) ? t(`agents.${agent as keyof typeof en.agents}`) : visibleText(agent);
}

function isKnown(tool: string): tool is keyof typeof en.tools {
  return Object.hasOwn(en.tools, tool);
}

function subjectOf({ tool, input = {}, files = [], details = {} }: ShownCall): string {
  switch (tool) {
    case 'get_document_text':
    case 'get_ocr_text':
      return Array.isArray(details.pages) ? ranges(details.pages as number[]) : textOf(input.pages ?? input.page_num);
    case 'search_document':
    case 'search_documents':
    case 'rerank_documents':
      return quoted(input.query);
    case 'list_documents':
    case 'list_schemas':
    case 'list_prompts':
    case 'list_tags':
      return quoted(input.name_search);
    case 'get_current_extraction':
    case 'get_extraction_result':
    case 'update_field':
    case 'remove_field':
    case 'update_extraction_field':
      return typeof input.path === 'string' ? pathLabel(input.path) : '';
    case 'identify_document':
    case 'complete_extraction':
      return textOf(input.document_type);
    case 'extract_fields':
      return listed(Object.keys((input.fields ?? {}) as object).map((path) => pathLabel(path)));
    case 'update_document':
      return [...files, quoted(input.name), ...tags('+', input.add_tags), ...tags('−', input.remove_tags)]
        .filter((one) => one !== '')
        .join(', ');
    case 'read_document':
      return [
        listed(files),
        typeof input.page === 'number' ? t('common.page', { page: input.page }) : '',
        quoted(input.focus_query),
      ]
        .filter((one) => one !== '')
        .join(', ');
    case 'read_multiple_documents':
    case 'get_document_summary':
    case 'delete_document':
      return listed(files);
    case 'query_fields':
      return queryText(input);
    case 'calculator':
      return textOf(input.expression);
    case 'record_intent':
      return isIntent(input.intent) ? t(`runs.intents.${input.intent}`) : '';
    case 'cite_source':
    case 'open_document':
      return [listed(files), quoted(input.quote)].filter((one) => one !== '').join(', ');
    default:
      return quoted(input.name ?? input.tag ?? details.name);
  }
}

/** Return how much a call found: "3 results". */
function countFound({ tool, details = {} }: ShownCall): string | null {
  const kind = /^list_(\w+)$/.exec(tool)?.[1];
  const items = kind === undefined ? undefined : details[kind];
  const count =
    tool === 'search_document'
      ? details.lines
      : tool === 'search_documents' && Array.isArray(details.documents)
        ? new Set(details.documents.map((one: { document_id?: unknown }) => one.document_id)).size
        : Array.isArray(items)
          ? items.length
          : undefined;
  return typeof count === 'number' ? t('runs.found', { count }) : null;
}

interface FieldQuery {
  aggregates?: readonly { op: string; path?: string | null }[];
  group_by?: { path?: string | null; kind?: string } | null;
  where?: {
    document_type?: string | null;
    fields?: readonly { path: string; op: string; value?: unknown }[];
    filename?: string | null;
  };
}

/** Return a query over fields in words: "sum of Total, by Vendor, where Total > 100". */
function queryText({ aggregates = [], group_by: group, where = {} }: FieldQuery): string {
  const figures =
    aggregates.length === 0 ? [t('runs.figures.count')] : aggregates.map(({ op, path }) => figure(op, path));
  const by = group?.path != null ? [t('runs.figures.by', { field: pathLabel(group.path) })] : [];
  const conditions = [
    ...(where.fields ?? []).map(({ path, op, value }) => `${pathLabel(path)} ${op} ${value ?? ''}`.trim()),
    ...[where.document_type, where.filename].filter((one) => one != null),
  ];
  const filter = conditions.length === 0 ? [] : [t('runs.figures.where', { conditions: conditions.join(', ') })];
  return [...figures, ...by, ...filter].join(', ');
}

function figure(op: string, path: string | null | undefined): string {
  const known = op === 'sum' || op === 'min' || op === 'max' || op === 'avg';
  if (path == null) return t('runs.figures.count');
  return known
    ? t(`runs.figures.${op}`, { field: pathLabel(path) })
    : t('runs.figures.countOf', { field: pathLabel(path) });
}

function isIntent(intent: unknown): intent is keyof typeof en.runs.intents {
  return typeof intent === 'string' && Object.hasOwn(en.runs.intents, intent);
}

function tags(sign: string, names: unknown): string[] {
  return Array.isArray(names) ? names.map((one) => `${sign} ${one}`) : [];
}

function quoted(text: unknown): string {
  return typeof text === 'string' && text !== '' ? t('runs.quoted', { text }) : '';
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? `${value}` : '';
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, MOST_NAMES).join(', ');
  return names.length > MOST_NAMES ? `${shown} + ${formatNumber(names.length - MOST_NAMES)}` : shown;
}

/** Return sorted page numbers as ranges: "1–3, 7". */
function ranges(pages: readonly number[]): string {
  const found: [number, number][] = [];
  for (const page of pages) {
    const last = found.at(-1);
    if (last !== undefined && page === last[1] + 1) last[1] = page;
    else found.push([page, page]);
  }
  return found.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(', ');
}

function shortened(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text;
}
