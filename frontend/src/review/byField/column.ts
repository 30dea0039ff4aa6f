/** Which field, of which documents: kept in the address. */

export interface Column {
  path?: string;
  document_type?: string;
}

/** What of an address is such a column. */
export function parseColumn({ path, document_type: type }: Record<string, unknown>): Column {
  return { ...(typeof path === 'string' && path !== '' && { path }), ...(typeof type === 'string' && type !== '' && { document_type: type }) };
}
