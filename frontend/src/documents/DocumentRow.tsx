/** One document of the list. The whole row leads to it. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { Document, ExtractionSummary } from '../api/types';
import { Button } from '../shared/Button';
import { ago, atMoment, bytes, count, plain } from '../shared/format';
import { Menu, MenuItem } from '../shared/Menu';
import { Sign } from '../shared/Sign';
import { lastExtractionQuery } from './documentQueries';
import { DocumentStatusBadge } from './DocumentStatusBadge';
import styles from './DocumentsPage.module.css';
import { LastExtraction } from './LastExtraction';

interface Props {
  document: Document;
  /** undefined: not known yet; "ask": not among the latest. */
  extraction: ExtractionSummary | null | undefined | 'ask';
  onDelete: (document: Document) => void;
}

/** Drawn anew only when it changes: dozens of them stand in a list that is scrolled. */
export const DocumentRow = memo(function DocumentRow({ document, extraction, onDelete }: Props) {
  const asked = useQuery({ ...lastExtractionQuery(document.id), enabled: extraction === 'ask' && document.status === 'ready' });
  const last = extraction === 'ask' ? asked.data : extraction;
  const facts = [
    document.page_count !== null && count(document.page_count, 'page'),
    document.byte_size !== null && bytes(document.byte_size),
  ].filter((fact) => fact !== false);
  return (
    <>
      <div className={styles.name} role="cell">
        <Sign name="page" />
        <Link to="/documents/$documentId" params={{ documentId: document.id }} className={`${styles.link} cut`} title={plain(document.filename)}>
          {plain(document.filename)}
        </Link>
        {document.tags.map((tag) => (
          <span key={tag.id} className={styles.tag}>
            <span className={styles.dot} style={{ background: tag.colour }} />
            {plain(tag.name)}
          </span>
        ))}
      </div>
      <div role="cell" className="cut">
        <DocumentStatusBadge document={document} />
        {document.error !== null && <span className={styles.why}>{document.error}</span>}
      </div>
      <div role="cell" className={styles.second}>
        <LastExtraction extraction={last} />
      </div>
      <div role="cell" className={`${styles.third} soft cut`}>
        {facts.join(' · ')}
      </div>
      <div role="cell" className={`${styles.second} soft cut`} title={atMoment(document.created_at)}>
        {ago(document.created_at)}
      </div>
      <div role="cell" className={styles.more}>
        <Menu
          trigger={
            <Button kind="quiet" label={`More about ${plain(document.filename)}`}>
              <Sign name="more" />
            </Button>
          }
        >
          <MenuItem onChoose={() => onDelete(document)}>
            <Sign name="bin" /> Delete
          </MenuItem>
        </Menu>
      </div>
    </>
  );
});
