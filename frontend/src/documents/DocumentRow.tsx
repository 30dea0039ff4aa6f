/** One document of the list. The whole row leads to it. */

import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { Document } from '../api/types';
import { Button } from '../shared/Button';
import { ago, atMoment, bytes, count, plain } from '../shared/format';
import { Menu, MenuItem } from '../shared/Menu';
import { Sign } from '../shared/Sign';
import styles from './DocumentsPage.module.css';
import { StageBadge } from './StageBadge';

interface Props {
  document: Document;
  canDelete: boolean;
  onDelete: (document: Document) => void;
}

/** Drawn anew only when it changes: dozens of them stand in a list that is scrolled. */
export const DocumentRow = memo(function DocumentRow({ document, canDelete, onDelete }: Props) {
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
            <span className={styles.dot} style={{ background: tag.color }} />
            {plain(tag.name)}
          </span>
        ))}
      </div>
      <div role="cell" className="cut">
        <StageBadge document={document} />
        {document.error !== null && <span className={styles.why}>{document.error}</span>}
      </div>
      <div role="cell" className={`${styles.third} soft cut`}>
        {facts.join(' · ')}
      </div>
      <div role="cell" className={`${styles.second} soft cut`} title={atMoment(document.created_at)}>
        {ago(document.created_at)}
      </div>
      <div role="cell" className={styles.more}>
        {canDelete && (
          <Menu
            trigger={
              <Button kind="quiet" label={`Actions for ${plain(document.filename)}`}>
                <Sign name="more" />
              </Button>
            }
          >
            <MenuItem onChoose={() => onDelete(document)}>
              <Sign name="bin" /> Delete
            </MenuItem>
          </Menu>
        )}
      </div>
    </>
  );
});
